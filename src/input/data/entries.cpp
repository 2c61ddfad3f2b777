#include "sftbench/data/entries.h"

#include <algorithm>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {

Entries::Entries(JsonlFile file) {
  files_.push_back(std::move(file));
  ends_.push_back(files_.front().size());
  range_.end = ends_.back();
}

Entries::Entries(std::vector<JsonlFile> files) : files_(std::move(files)) {
  check(!files_.empty(), "there is a file");
  int64_t end = 0;
  for (const JsonlFile& file : files_) ends_.push_back(end += file.size());
  range_.end = end;
}

void Entries::take_slice(const std::string& slice) {
  range_ = entry_range(slice, ends_.back());
}

Entries::Place Entries::find(int64_t entry) const {
  check(entry >= 0 && entry < size(), "there is an entry of this number");
  entry += range_.begin;
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), entry);
  const auto number = static_cast<size_t>(end - ends_.begin());
  return {files_[number], number == 0 ? entry : entry - ends_[number - 1]};
}

const std::string& Entries::path(int64_t entry) const {
  return find(entry).file.path();
}

int Entries::line_number(int64_t entry) const {
  const Place place = find(entry);
  return place.file.line_number(place.entry);
}

std::string Entries::line(int64_t entry) const {
  const Place place = find(entry);
  return place.file.line(place.entry);
}

bool Entries::read_text(int64_t entry, std::string_view field, std::string& text, Diagnostic& error,
                        std::vector<std::string>* keys) const {
  const Place place = find(entry);
  return place.file.read_text(place.entry, field, text, error, keys);
}

void Entries::explain_left_out(int64_t entry, Diagnostic& error) const {
  find(entry).file.explain_left_out(error);
}

const std::map<std::string, std::string>& Entries::left_out(int64_t entry) const {
  return find(entry).file.left_out();
}

bool Entries::read_object(int64_t entry, Json& object, Diagnostic& error) const {
  const Place place = find(entry);
  return place.file.read_object(place.entry, object, error);
}

}  // namespace sftbench
