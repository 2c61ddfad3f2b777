#include "campaign/ray_package.h"

#include <minizip/zip.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "sftbench/base/digest.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace {

// minizip writes files.
class TemporaryFile {
 public:
  TemporaryFile() : path_((std::filesystem::temp_directory_path() / "sftbench_XXXXXX").string()) {
    const int fd = ::mkstemp(path_.data());
    if (fd < 0) throw std::runtime_error("no file can be made in " + path_);
    ::close(fd);
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void require(int result, const std::string& path) {
  if (result != ZIP_OK) throw std::runtime_error("the archive cannot be written to " + path);
}

}  // namespace

std::string ray_package(const std::map<std::string, std::string>& files) {
  const TemporaryFile file;
  zipFile zip = ::zipOpen(file.path().c_str(), APPEND_STATUS_CREATE);
  if (zip == nullptr) require(ZIP_ERRNO, file.path());
  for (const auto& [name, content] : files) {
    zip_fileinfo info = {};
    info.dosDate = 0x00210000;                             // 1980-01-01: the same bytes each time
    info.external_fa = static_cast<uLong>(0100644) << 16;  // as Unix writes a file's mode
    require(::zipOpenNewFileInZip(zip, name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr,
                                  Z_DEFLATED, Z_DEFAULT_COMPRESSION),
            file.path());
    require(::zipWriteInFileInZip(zip, content.data(), static_cast<unsigned>(content.size())),
            file.path());
    require(::zipCloseFileInZip(zip), file.path());
  }
  require(::zipClose(zip, nullptr), file.path());
  return read_file(file.path());
}

std::string ray_package_name(const std::string& package) {
  return "_ray_pkg_" + digest(package) + ".zip";
}

}  // namespace sftbench
