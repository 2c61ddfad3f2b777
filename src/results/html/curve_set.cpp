#include "results/html/curve_set.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "results/html/curve_reader.h"
#include "sftbench/results/sample_series.h"

namespace sftbench::html {
namespace {

std::vector<size_t> newest_first(const StoreScan& scan) {
  std::vector<size_t> rows;
  for (size_t row = 0; row < scan.results.size(); ++row) {
    if (scan.results[row].status == Status::kValid) rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) {
    return scan.results[a].finished_at > scan.results[b].finished_at;
  });
  return rows;
}

class Collector {
 public:
  Collector(const StoreScan& scan, const std::filesystem::path& directory, size_t most_bytes)
      : scan_(scan), directory_(directory), most_bytes_(most_bytes) {}

  CurveSet collect() {
    constexpr size_t kBlock = 256;  // read ahead of the decision that there is no more room
    read_.resize(scan_.results.size());
    kept_.resize(scan_.results.size());
    const std::vector<size_t> rows = newest_first(scan_);
    size_t next = 0;
    for (bool room = true; room && next < rows.size();) {
      const size_t end = std::min(next + kBlock, rows.size());
      read({rows.begin() + static_cast<std::ptrdiff_t>(next),
            rows.begin() + static_cast<std::ptrdiff_t>(end)});
      while (room && next < end) {
        room = take(rows[next]);
        next += room ? 1 : 0;
      }
    }
    set_.left_out = static_cast<int64_t>(rows.size() - next);
    set_.most_places = places_;
    lay_out();
    return std::move(set_);
  }

 private:
  // Each thread with a reader of its own.
  void read(const std::vector<size_t>& rows) {
    std::atomic<size_t> next = 0;
    const auto read_some = [&] {
      CurveReader reader;
      for (size_t i; (i = next.fetch_add(1)) < rows.size();)
        read_[rows[i]] = reader.read(directory_ / scan_.results[rows[i]].file, places_);
    };
    constexpr size_t kFilesPerThread = 16;
    const size_t threads = std::clamp<size_t>(rows.size() / kFilesPerThread, 1,
                                              std::max(1U, std::thread::hardware_concurrency()));
    std::vector<std::thread> helpers;
    for (size_t i = 1; i < threads; ++i) helpers.emplace_back(read_some);
    read_some();
    for (std::thread& helper : helpers) helper.join();
  }

  // False when there is no room for it.
  bool take(size_t row) {
    MeasurementCurves& entry = read_[row];
    coarsen_all(entry);
    std::string bytes = encoded(entry.curves);
    while (size_bytes_ + bytes.size() > most_bytes_) {
      if (places_ <= kFewestPlaces) return false;
      places_ = std::max(kFewestPlaces, places_ / 2);
      for (const size_t earlier : taken_) keep(earlier);
      coarsen_all(entry);
      bytes = encoded(entry.curves);
    }
    size_bytes_ += bytes.size();
    kept_[row] = std::move(bytes);
    taken_.push_back(row);
    if (!entry.has_series) ++set_.without_series;
    if (!entry.problem.empty()) {
      set_.problems.push_back(series_beside(scan_.results[row].file).string() + ": " +
                              entry.problem);
    }
    return true;
  }

  void coarsen_all(MeasurementCurves& entry) const {
    for (Curve& curve : entry.curves) coarsen(curve, places_);
  }

  // Again, with fewer places.
  void keep(size_t row) {
    MeasurementCurves& entry = read_[row];
    coarsen_all(entry);
    size_bytes_ -= kept_[row].size();
    kept_[row] = encoded(entry.curves);
    size_bytes_ += kept_[row].size();
  }

  void lay_out() {
    set_.bytes.reserve(size_bytes_);
    for (const std::string& bytes : kept_) {
      set_.offsets.push_back(static_cast<uint32_t>(set_.bytes.size()));
      set_.bytes += bytes;
    }
    set_.offsets.push_back(static_cast<uint32_t>(set_.bytes.size()));
  }

  const StoreScan& scan_;
  const std::filesystem::path& directory_;
  const size_t most_bytes_;
  size_t places_ = kMostPlaces;
  size_t size_bytes_ = 0;
  std::vector<MeasurementCurves> read_;  // by row
  std::vector<std::string> kept_;        // by row
  std::vector<size_t> taken_;
  CurveSet set_;
};

}  // namespace

CurveSet collect_curves(const StoreScan& scan, const std::filesystem::path& directory,
                        size_t most_bytes) {
  return Collector(scan, directory, most_bytes).collect();
}

}  // namespace sftbench::html
