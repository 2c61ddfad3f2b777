// A result file, whatever its bytes: either an InputError, or a measurement that another JSON
// parser finds whole, too, with the same status; and its rows can be written.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "results/result_reader.h"
#include "sftbench/results/report.h"

namespace {

using namespace sftbench;

void require(bool promise) {
  if (!promise) std::abort();
}

// A file without a name, since results are read from files.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content) : fd_(::memfd_create("result", 0)) {
    require(fd_ >= 0);
    require(::write(fd_, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
    path_ = "/proc/self/fd/" + std::to_string(fd_);
  }
  ~MemoryFile() { ::close(fd_); }
  const char* path() const { return path_.c_str(); }

 private:
  int fd_;
  std::string path_;
};

void check_promises(const StoredResult& result, std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  // Of a key that stands twice, one parser takes the first value and the other the last.
  require(json.is_object() && json.contains("status") && json.contains("entity_id"));
  require(json.contains("schema") && json.contains("inputs"));
  StoreScan scan;
  scan.results.push_back(result);
  AdoLayout wide;
  wide.wide = true;
  write_csv(ado_table(scan, wide), [](std::string_view piece) { require(!piece.empty()); });
  require(short_table(scan).rows == 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const MemoryFile file(text);
  static ResultReader reader;
  TextPool texts;
  require(reader.load(AT_FDCWD, file.path()));
  try {
    const std::string name = std::filesystem::path(file.path()).filename();
    check_promises(reader.parse(result_name(name).key, texts), text);
    require(read_status(file.path()).has_value());
  } catch (const InputError& error) {
    require(!error.diagnostics().empty() && !error.diagnostics().front().message.empty());
  }
  return 0;
}
