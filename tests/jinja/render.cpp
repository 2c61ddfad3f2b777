// jinja_render TEMPLATE CASES.json NOW: what a template makes of each object of variables, as JSON.
// For tests/reference/chat_templates.py --published.
#include <iostream>
#include <sstream>
#include <string>

#include "sftbench/base/file.h"
#include "sftbench/jinja/template.h"

int main(int count, char** words) {
  using sftbench::Json;
  if (count != 4) {
    std::cerr << "usage: jinja_render TEMPLATE CASES.json NOW\n";
    return 2;
  }
  try {
    const sftbench::jinja::Template chat(sftbench::read_file(words[1]), words[1]);
    Json results = Json::array();
    for (const Json& variables : sftbench::read_json_file(words[2])) {
      Json result;
      try {
        const sftbench::jinja::Rendered rendered = chat.render(variables, std::stoll(words[3]));
        result["text"] = rendered.text;
        result["generation"] = Json::array();
        for (const auto& span : rendered.generation)
          result["generation"].push_back({span.begin, span.end});
      } catch (const sftbench::InputError& error) {
        result["error"] = error.what();
      }
      results.push_back(std::move(result));
    }
    std::cout << results.dump() << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
