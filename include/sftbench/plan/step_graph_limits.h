// What the step of a job may not have so that one CUDA graph can repeat it, known without libtorch.
#pragma once

#include <string>
#include <vector>

#include "sftbench/families/model_config.h"
#include "sftbench/variants/optimizer.h"
#include "sftbench/variants/padding.h"
#include "sftbench/variants/precision.h"

namespace sftbench {

struct GraphedStep {
  bool distributed = false;  // gradients go through a communication library
  OptimizerKind optimizer = OptimizerKind::kAdamwTorch;
  Autocast autocast = Autocast::kNo;
  Padding padding = Padding::kLongest;
  double lora_dropout = 0;
  bool offloads = false;
  bool fused_loss = true;
  bool traced = false;  // a timeline of each layer is wanted
  bool images = false;
  const ModelConfig* model = nullptr;  // null: nothing is known of it
};

// A sentence for each reason, with what works instead; empty: a graph can repeat it.
std::vector<std::string> step_graph_refusals(const GraphedStep& step);

}  // namespace sftbench
