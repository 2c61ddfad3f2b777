// A report that follows a campaign without any server: the page of report_html.h. It loads its data
// from a script beside it, which works from a disk as well, and keeps looking for a newer one.
//
//   PAGE.html      written once
//   PAGE.data.js   the measurements, written when they have changed
//   PAGE.live.js   a sign of life, written at every look: when it was, how far the campaign is,
//                  how it ended
//
// Each is replaced as a whole. The page counts a sign that does not change as silence, on its own
// clock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "sftbench/base/json.h"
#include "sftbench/results/report_html.h"

namespace sftbench {

struct StoreScan;

class LivePage {
 public:
  // Nothing is written yet. InputError when `page` is no name of a file.
  LivePage(std::filesystem::path page, std::filesystem::path results);
  ~LivePage();

  // Writes the page. InputError (path and the system's reason) when it cannot be written.
  void begin();

  // Writes the data where results have come, gone or changed since the last time; `select` leaves
  // of a scan what the page shows. `options.results` is set here. About a tenth of the time is spent
  // on this: it waits nine times as long as it took, a minute at most, unless `at_once`. False when
  // nothing was written. InputError when the folder cannot be listed, or nothing be written.
  bool refresh(const std::function<void(StoreScan&)>& select, HtmlOptions options,
               bool at_once = false);

  // How the campaign stands. `status`: {line: text, ...}. `interval_s`: until the next sign at the
  // latest. `ended`: why there will be none; empty: there will be.
  void sign(Json status, double interval_s, const std::string& ended);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sftbench
