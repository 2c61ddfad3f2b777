// The part of libtorch that the engine is written with: tensors, their operators, autograd. Of
// <torch/torch.h> it leaves out nn, optim, data, jit and serialize, which would cost every
// translation unit five seconds more. Only modules that are compiled against libtorch include it.
#pragma once

// First: clang wants all of a type that libtorch 1.13 has vectors of.
#include <ATen/core/ivalue.h>

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>
