#include "sftbench/results/live_page.h"

#include <dirent.h>

#include <algorithm>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "results/html/page_data.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/results/scan.h"
#include "sftbench/results/store.h"
#include "sftbench_report_page.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr double kShareOfTime = 0.1;
constexpr double kMostWaitSeconds = 60;  // the first look may have read many gigabytes

// Names and numbers of the files of one folder that are results, or were: a file that is replaced
// has another number. Reads no file.
void list(const fs::path& folder, std::vector<std::string>& files) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(folder.c_str()), ::closedir);
  if (!stream) return;  // it vanished: a change as well
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name.front() == '.' || name.find(".json") == std::string::npos) continue;
    if (name.find(".growing.") != std::string::npos) continue;
    files.push_back((folder.filename() / name).string() + '\n' + std::to_string(entry->d_ino));
  }
}

// Differs when results have come, gone or changed.
std::string look_of(const fs::path& results) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(results, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().filename().string().front() != '.' && entry->is_directory(ignored))
      list(entry->path(), files);
  }
  std::sort(files.begin(), files.end());
  StreamingDigest digest;
  for (const std::string& file : files) digest.add(file.c_str(), file.size() + 1);
  return digest.text();
}

void replace_in(std::string& text, std::string_view old, std::string_view with) {
  const size_t place = text.find(old);
  check(place != std::string::npos, "the page has what a live page has otherwise");
  text.replace(place, old.size(), with);
}

// Says that its data are in a file beside it, and may load that.
std::string live_page_text() {
  std::string head(html::kPageHead);
  replace_in(head, "script-src 'unsafe-inline'", "script-src 'unsafe-inline' 'self' file:");
  replace_in(head, "id=\"data\">", "id=\"data\" data-live>");
  return head + std::string(html::kPageTail);
}

}  // namespace

struct LivePage::State {
  fs::path page, results;
  html::CurveCache cache;
  std::string look;        // of the results when the data were written
  std::string created_at;  // of the data
  double not_before_s = 0;
  int64_t signs = 0;

  fs::path beside(const char* extension) const {
    fs::path path = page;
    return path.replace_extension(extension);
  }
};

LivePage::LivePage(fs::path page, fs::path results) : state_(std::make_unique<State>()) {
  const std::string extension = page.extension().string();
  if (page.stem().empty() || (extension != ".html" && extension != ".htm")) {
    throw InputError({{.file = {},
                       .line = 0,
                       .key = "--page",
                       .message = "'" + page.string() + "' is no name of a page",
                       .expected = "a file that ends in .html",
                       .nearest = {}}});
  }
  state_->page = std::move(page);
  state_->results = std::move(results);
}

LivePage::~LivePage() = default;

void LivePage::begin() {
  write_file_atomic(state_->page, live_page_text());
}

bool LivePage::refresh(const std::function<void(StoreScan&)>& select, HtmlOptions options,
                       bool at_once) {
  const double begin_s = steady_seconds();
  if (!at_once && begin_s < state_->not_before_s) return false;
  std::string look = look_of(state_->results);
  if (look == state_->look) return false;
  StoreScan scan = ResultStore(state_->results).scan();
  select(scan);
  options.results = state_->results;
  write_file_atomic(state_->beside(".data.js"),
                    "sftbenchData(\"" + html::packed_data(scan, options, state_->cache) + "\");\n");
  state_->look = std::move(look);
  state_->created_at = options.created_at;
  const double end_s = steady_seconds();
  state_->not_before_s =
      end_s + std::min(kMostWaitSeconds, (end_s - begin_s) * (1 / kShareOfTime - 1));
  return true;
}

void LivePage::sign(Json status, double interval_s, const std::string& ended) {
  const Json sign = {
      {"data", state_->created_at}, {"sign", ++state_->signs}, {"at", utc_now_iso8601()},
      {"interval_s", interval_s},   {"ended", ended},          {"status", std::move(status)}};
  write_file_atomic(state_->beside(".live.js"), "sftbenchSign(" + json_text(sign) + ");\n");
}

}  // namespace sftbench
