// What the program asks of a user whose model has a tokenizer that it does not read.
#pragma once

#include <string>
#include <string_view>

namespace sftbench {

// The shell's command that makes tokenizer.json of the tokenizer.model of SentencePiece in a folder.
std::string tokenizer_json_command(std::string_view folder);

}  // namespace sftbench
