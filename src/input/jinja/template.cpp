#include "sftbench/jinja/template.h"

#include "jinja/program.h"
#include "sftbench/base/error.h"

namespace sftbench::jinja {
namespace {

InputError located(const std::string& name, const TemplateError& error) {
  return InputError({{.file = name,
                      .line = error.line,
                      .key = {},
                      .message = error.what(),
                      .expected = {},
                      .nearest = {}}});
}

}  // namespace

bool is_template(std::string_view text) {
  return text.find("{{") != std::string_view::npos || text.find("{%") != std::string_view::npos;
}

Template::Template(std::string_view source, std::string name) {
  try {
    program_ = std::make_unique<const Program>(parse(source, name));
  } catch (const TemplateError& error) {
    throw located(name, error);
  }
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

bool Template::marks_generation() const {
  return program_->marks_generation;
}

Rendered Template::render(const Json& variables, std::time_t now) const {
  try {
    Runtime runtime(now);
    Frame frame{runtime, std::make_shared<Scope>(nullptr)};
    add_globals(runtime, *frame.scope);
    for (const auto& [name, value] : variables.items())
      frame.scope->set(name, Value::from_json(value));
    program_->body(frame);
    return runtime.take();
  } catch (const TemplateError& error) {
    throw located(program_->name, error);
  }
}

}  // namespace sftbench::jinja
