// Writes a run's model and optimizer into a folder. Each rank writes what it owns, and nothing is
// sent but what FULL gathers: one unit at a time, to rank 0, which appends it to its file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/trained_state.h"
#include "sftbench/checkpoint/manifest.h"
#include "sftbench/tokenizer/files.h"

namespace sftbench {

// What a rank has to tell rank 0 of its files: rows of the indices (checkpoint/stored_state.h), the
// numbers of the optimizer's state by state_key(), and the files' checksums.
struct SavedPieces {
  Json model = Json::array(), optimizer = Json::array(), numbers = Json::object();
  std::vector<FileSum> files;
};

// Collective, FULL: rank 0 writes model.safetensors with what the weights' directory has beside the
// model, or peft's adapter_model.safetensors. SHARDED, LOCAL: every rank of the first replica
// writes a file with what it owns of trained parameters.
void save_model(const TrainedState& state, const std::string& weights_directory,
                const std::string& format, const std::filesystem::path& folder,
                SavedPieces& pieces);

// Every rank of the first replica writes the states of what it owns, in any format.
void save_optimizer(const TrainedState& state, const std::filesystem::path& folder,
                    SavedPieces& pieces);

// Rank 0: what makes a folder of weights one that transformers and peft load: config.json as it was
// trained, generation_config.json where the model's folder has it; or adapter_config.json; and what
// saved_files.h has. Their checksums.
std::vector<FileSum> save_description(const TrainedState& state, const TrainingJob& job,
                                      const std::vector<TokenizerFile>& beside,
                                      const std::filesystem::path& folder);

}  // namespace sftbench
