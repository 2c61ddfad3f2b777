#include "sftbench/base/conversion_commands.h"

#include "sftbench/base/text.h"

namespace sftbench {

std::string tokenizer_json_command(std::string_view folder) {
  return "python3 -c 'import sys, transformers as t; t.AutoTokenizer.from_pretrained(sys.argv[1])"
         ".save_pretrained(sys.argv[1])' " +
         shell_quoted(folder);
}

std::string safetensors_command(std::string_view folder) {
  return "python3 -c 'import sys, transformers as t; "
         "t.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=\"auto\")"
         ".save_pretrained(sys.argv[1])' " +
         shell_quoted(folder);
}

}  // namespace sftbench
