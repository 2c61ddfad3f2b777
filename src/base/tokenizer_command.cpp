#include "sftbench/base/tokenizer_command.h"

#include "sftbench/base/text.h"

namespace sftbench {

std::string tokenizer_json_command(std::string_view folder) {
  return "python3 -c 'import sys, transformers as t; t.AutoTokenizer.from_pretrained(sys.argv[1])"
         ".save_pretrained(sys.argv[1])' " +
         shell_quoted(folder);
}

}  // namespace sftbench
