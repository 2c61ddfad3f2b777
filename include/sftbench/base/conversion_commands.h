// What the program asks of a user whose model has files that it does not read.
#pragma once

#include <string>
#include <string_view>

namespace sftbench {

// The shell's command that makes tokenizer.json of the tokenizer.model of SentencePiece in a
// folder.
std::string tokenizer_json_command(std::string_view folder);

// That makes safetensors of the pickled weights (pytorch_model.bin) in a folder.
std::string safetensors_command(std::string_view folder);

}  // namespace sftbench
