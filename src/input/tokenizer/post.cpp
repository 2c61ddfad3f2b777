#include "tokenizer/post.h"

#include <algorithm>
#include <limits>

#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

class PostReader {
 public:
  PostReader(TokenizerProblems& problems, PostProcessor& result)
      : problems_(problems), result_(result) {}

  void read(const Json& object, const std::string& path, int depth) {
    if (!object.is_object()) return problems_.add(path, "is " + kind_of(object), "an object");
    if (depth > kDeepestSequence) return problems_.add(path, "sequences are nested too deep");
    const std::string type = problems_.text(object, "type", "", path);
    if (type == "TemplateProcessing") {
      read_template(object, path);
    } else if (type == "Sequence") {
      const auto parts = object.find("processors");
      if (parts == object.end() || !parts->is_array()) {
        return problems_.add(path + ".processors", "is missing", "a list");
      }
      for (size_t i = 0; i < parts->size(); ++i) {
        read((*parts)[i], path + ".processors[" + std::to_string(i) + "]", depth + 1);
      }
    } else if (type == "RobertaProcessing" || type == "BertProcessing") {
      std::vector<int32_t> before, after;
      read_pair(object, "cls", path, before);
      read_pair(object, "sep", path, after);
      add(before, after);
    } else if (type != "ByteLevel") {  // ByteLevel moves offsets, which are not made here
      const std::vector<std::string> known = {"TemplateProcessing", "RobertaProcessing",
                                              "BertProcessing", "ByteLevel", "Sequence"};
      problems_.add(path + ".type", "unsupported post-processor '" + type + "'", join(known),
                    nearest_spelling(type, known));
    }
  }

 private:
  void read_template(const Json& object, const std::string& path) {
    const auto single = object.find("single");
    if (single == object.end() || !single->is_array()) {
      return problems_.add(path + ".single", "is missing", "a list of SpecialToken and Sequence");
    }
    std::vector<int32_t> before, after;
    size_t texts = 0;
    for (size_t i = 0; i < single->size(); ++i) {
      const Json& part = (*single)[i];
      const std::string part_path = path + ".single[" + std::to_string(i) + "]";
      if (part.is_object() && part.contains("Sequence")) {
        ++texts;
      } else if (part.is_object() && part.contains("SpecialToken") &&
                 part["SpecialToken"].is_object()) {
        const std::string name =
            problems_.text(part["SpecialToken"], "id", "", part_path + ".SpecialToken");
        read_special(object, name, path, texts == 0 ? before : after);
      } else {
        problems_.add(part_path, "is " + kind_of(part), "an object with SpecialToken or Sequence");
      }
    }
    if (texts != 1) {
      return problems_.add(path + ".single", "holds the text " + std::to_string(texts) + " times",
                           "once");
    }
    add(before, after);
  }

  void add(const std::vector<int32_t>& before, const std::vector<int32_t>& after) {
    result_.before.insert(result_.before.begin(), before.begin(), before.end());
    result_.after.insert(result_.after.end(), after.begin(), after.end());
  }

  // ["<s>", 0]
  void read_pair(const Json& object, const char* name, const std::string& path,
                 std::vector<int32_t>& ids) {
    const auto pair = object.find(name);
    const bool is_pair =
        pair != object.end() && pair->is_array() && pair->size() == 2 && (*pair)[0].is_string();
    if (!is_pair) {
      return problems_.add(path + "." + name,
                           pair == object.end() ? "is missing" : "is " + kind_of(*pair),
                           "a token and its id, as [\"<s>\", 0]");
    }
    read_id((*pair)[1], path + "." + name, ids);
  }

  void read_id(const Json& id, const std::string& path, std::vector<int32_t>& ids) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > std::numeric_limits<int32_t>::max()) {
      return problems_.add(path, "holds " + json_text(id), "ids");
    }
    ids.push_back(id.get<int32_t>());
  }

  void read_special(const Json& object, const std::string& name, const std::string& path,
                    std::vector<int32_t>& ids) {
    const std::string key = path + ".special_tokens." + name;
    const auto tokens = object.find("special_tokens");
    if (tokens == object.end() || !tokens->is_object() || !tokens->contains(name)) {
      return problems_.add(key, "is missing", "the ids of a token that the template names");
    }
    const Json& token = (*tokens)[name];
    const auto list = token.is_object() ? token.find("ids") : token.end();
    if (!token.is_object() || list == token.end() || !list->is_array()) {
      return problems_.add(key + ".ids", "is missing", "a list of ids");
    }
    for (const Json& id : *list) read_id(id, key + ".ids", ids);
  }

  TokenizerProblems& problems_;
  PostProcessor& result_;
};

}  // namespace

PostProcessor PostProcessor::parse(const Json& post_processor, TokenizerProblems& problems) {
  PostProcessor result;
  if (!post_processor.is_null())
    PostReader(problems, result).read(post_processor, "post_processor", 0);
  return result;
}

}  // namespace sftbench
