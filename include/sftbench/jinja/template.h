// Jinja templates as Hugging Face's chat templates use them: jinja2's ImmutableSandboxedEnvironment
// with trim_blocks and lstrip_blocks, loop controls, raise_exception, strftime_now and the
// generation block. Source: jinja2 3.1 and transformers' chat_template_utils.
//
// A template comes with a model and is not trusted. It cannot read files or change what it is
// given, and what one rendering may take is bounded. What jinja2 has beyond that (include, import,
// extends, block, some filters) is refused by name.
#pragma once

#include <cstddef>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/json.h"

namespace sftbench::jinja {

// Bytes [begin, end) of a rendered text.
struct Span {
  size_t begin = 0, end = 0;
};

struct Rendered {
  std::string text;
  std::vector<Span> generation;  // what generation blocks made, in order
};

struct Program;

// Whether a text is a template, and not the name of a file that holds one.
bool is_template(std::string_view text);

class Template {
 public:
  // InputError with `name` (a path, say) and the line.
  Template(std::string_view source, std::string name);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  // `variables` is an object; each of its values becomes a variable. strftime_now tells `now`.
  // InputError with the template's name and line: what jinja2 or Python would raise, what
  // raise_exception says, or a bound that was passed. Safe for concurrent calls.
  Rendered render(const Json& variables, std::time_t now) const;

  // Whether a generation block is in it, so that it can tell what an assistant says.
  bool marks_generation() const;

 private:
  std::unique_ptr<const Program> program_;
};

}  // namespace sftbench::jinja
