#include <algorithm>

#include "jinja/parser.h"

namespace sftbench::jinja {

Token TokenStream::take() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::skip_name(std::string_view name) {
  const bool is_here = at_name(name);
  if (is_here) take();
  return is_here;
}

bool TokenStream::skip_operator(std::string_view text) {
  const bool is_here = at_operator(text);
  if (is_here) take();
  return is_here;
}

void TokenStream::expect_operator(std::string_view text) {
  if (!skip_operator(text))
    fail("expected '" + std::string(text) + "', got " + described(current()));
}

void TokenStream::expect_name(std::string_view name) {
  if (!skip_name(name)) fail("expected '" + std::string(name) + "', got " + described(current()));
}

std::string TokenStream::expect_a_name() {
  if (!at(TokenKind::kName)) fail("expected a name, got " + described(current()));
  return take().text;
}

void TokenStream::expect(TokenKind kind, const char* what) {
  if (!at(kind)) fail("expected " + std::string(what) + ", got " + described(current()));
  take();
}

bool TokenStream::has_name_since(size_t mark, std::string_view name) const {
  return std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(mark),
                     tokens_.begin() + static_cast<std::ptrdiff_t>(at_), [&](const Token& token) {
                       return token.kind == TokenKind::kName && token.text == name;
                     });
}

}  // namespace sftbench::jinja
