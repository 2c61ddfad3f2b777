#include "sftbench/huggingface/endpoint.h"

#include <algorithm>
#include <vector>

#include "sftbench/base/environment.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/text.h"
#include "sftbench/huggingface/cache.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestShown = 300;

[[noreturn]] void fail(const std::string& key, const std::string& message,
                       const std::string& expected) {
  throw InputError({{.file = {},
                     .line = 0,
                     .key = key,
                     .message = message,
                     .expected = expected,
                     .nearest = {}}});
}

bool is_true(const std::string& text) {
  std::string upper = text;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return upper == "1" || upper == "ON" || upper == "YES" || upper == "TRUE";
}

std::string hub_url(const std::string& given) {
  const std::string from_environment = environment("HF_ENDPOINT");
  const bool by_option = !given.empty();
  if (!by_option && from_environment.empty()) return HubEndpoint().url;
  std::string url(trimmed(by_option ? given : from_environment));
  while (!url.empty() && url.back() == '/') url.pop_back();
  const bool http = url.rfind("https://", 0) == 0 || url.rfind("http://", 0) == 0;
  const bool has_host = http && url.find("//") + 2 < url.size();
  if (!has_host || url.find_first_of(" \t\r\n?#") != std::string::npos) {
    fail(by_option ? "--endpoint" : "HF_ENDPOINT", "found '" + shown_url(url) + "'",
         "an address like https://huggingface.co");
  }
  return url;
}

// The token of one place; a header line is made of it, so nothing but visible characters.
bool take_token(const std::string& text, const std::string& origin, HubEndpoint& endpoint) {
  std::string token(trimmed(text));
  if (token.empty()) return false;
  const bool visible =
      std::all_of(token.begin(), token.end(), [](char c) { return c > 32 && c < 127; });
  if (!visible)
    fail(origin, "is no token: it has blanks or characters that are not ASCII", "hf_...");
  endpoint.token = std::move(token);
  endpoint.token_origin = origin;
  return true;
}

void find_token(const std::optional<std::string>& hf_home, HubEndpoint& endpoint) {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (take_token(environment(name), name, endpoint)) return;
  }
  if (const std::string path = environment("HF_TOKEN_PATH"); !path.empty()) {
    take_token(read_file(path), path, endpoint);  // named by the user: its absence is an error
    return;
  }
  std::vector<fs::path> files;
  if (hf_home) files.push_back(fs::path(*hf_home) / "token");
  const std::string home = environment("HF_HOME");
  files.push_back(home.empty() ? hub_cache_directory(std::nullopt).parent_path() / "token"
                               : fs::path(home) / "token");
  std::error_code error;
  for (const fs::path& file : files) {
    if (fs::is_regular_file(file, error) && take_token(read_file(file), file.string(), endpoint))
      return;
  }
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

}  // namespace

HubEndpoint find_hub_endpoint(const std::string& url, const std::optional<std::string>& hf_home) {
  if (is_true(environment("HF_HUB_OFFLINE"))) {
    fail("HF_HUB_OFFLINE", "is set, so nothing is fetched", "it to be unset");
  }
  HubEndpoint endpoint;
  endpoint.url = hub_url(url);
  find_token(hf_home, endpoint);
  endpoint.ca_bundle = ca_bundle_of_environment();
  return endpoint;
}

std::string shown_text(std::string_view text, const HubEndpoint& endpoint) {
  std::string shown(text);
  if (!endpoint.token.empty()) replace_all(shown, endpoint.token, "[token]");
  for (char& c : shown) {
    if (c < 32 || c > 126) c = ' ';
  }
  if (shown.size() > kLongestShown) shown = shown.substr(0, kLongestShown - 3) + "...";
  return std::string(trimmed(shown));
}

}  // namespace sftbench
