// The operators that the models are made of. Each stands in a header of its own, has a portable CPU
// path and a CUDA path, computes forward and backward without keeping what it can recompute, and is
// checked against float64. Including this header gives all of them.
#pragma once

#include "sftbench/ops/attention.h"
#include "sftbench/ops/causal_convolution.h"
#include "sftbench/ops/embedding.h"
#include "sftbench/ops/gated_norm.h"
#include "sftbench/ops/gelu.h"
#include "sftbench/ops/global_norm.h"
#include "sftbench/ops/grouped_linear.h"
#include "sftbench/ops/layer_norm.h"
#include "sftbench/ops/linear.h"
#include "sftbench/ops/linear_cross_entropy.h"
#include "sftbench/ops/rms_norm.h"
#include "sftbench/ops/rope.h"
#include "sftbench/ops/route.h"
#include "sftbench/ops/state_space_scan.h"
#include "sftbench/ops/swiglu.h"
