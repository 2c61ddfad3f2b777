#include "huggingface/blob_download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "huggingface/blob_hash.h"
#include "huggingface/file_lock.h"
#include "huggingface/verified_blobs.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr double kLockNapSeconds = 0.2;

[[noreturn]] void fail(const fs::path& path, const char* what) {
  throw RunError(ReasonCode::kWeights,
                 std::string(what) + " " + path.string() + ": " + std::strerror(errno));
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// 100 of "bytes 100-199/200".
std::optional<uint64_t> range_begin(const std::string& content_range) {
  constexpr std::string_view kUnit = "bytes ";
  if (content_range.rfind(kUnit, 0) != 0) return std::nullopt;
  const size_t dash = content_range.find('-');
  if (dash == std::string::npos) return std::nullopt;
  return number(std::string_view(content_range).substr(kUnit.size(), dash - kUnit.size()));
}

// A blob on its way: a growing file and the hash of what is in it.
class BlobDownload {
 public:
  BlobDownload(HttpSession& session, const BlobTask& task, const FetchSettings& settings,
               const std::function<void(int64_t)>& on_bytes)
      : session_(session),
        task_(task),
        settings_(settings),
        on_bytes_(on_bytes),
        path_(task.repository.incomplete(task.file.oid)),
        hash_(task.file.oid, task.file.size_bytes) {}
  ~BlobDownload() {
    if (fd_ >= 0) ::close(fd_);
  }
  BlobDownload(const BlobDownload&) = delete;
  BlobDownload& operator=(const BlobDownload&) = delete;

  uint64_t run() {
    open_incomplete();
    with_retries(settings_, [this] { attempt(); });
    if (const std::string found = hash_.hexadecimal(); found != task_.file.oid) {
      // What was at hand may be to blame; the second time it is the hub or the way from it.
      settings_.log(FetchLog::kWarning, mismatch(found) + "; fetching it once more from its start");
      restart();
      with_retries(settings_, [this] { attempt(); });
      if (const std::string again = hash_.hexadecimal(); again != task_.file.oid) {
        restart();
        throw HttpError(mismatch(again) + "; nothing of it was kept", false);
      }
    }
    if (::fdatasync(fd_) != 0) fail(path_, "cannot write");
    const fs::path blob = task_.repository.blob(task_.file.oid);
    if (::rename(path_.c_str(), blob.c_str()) != 0) fail(blob, "cannot write");
    remember(task_.repository, task_.file.oid, blob);
    return transferred_bytes_;
  }

 private:
  std::string name() const { return task_.file.path + " of " + task_.repository.id(); }

  std::string mismatch(const std::string& found) const {
    const char* kind = found.size() == 64 ? "sha256" : "git hash";
    return name() + ": its " + kind + " is " + found + ", the hub's list says " + task_.file.oid;
  }

  void open_incomplete() {
    std::error_code error;
    fs::create_directories(path_.parent_path(), error);
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    struct stat status {};
    if (fd_ < 0 || ::fstat(fd_, &status) != 0) fail(path_, "cannot write");
    const auto size_bytes = static_cast<uint64_t>(status.st_size);
    if (size_bytes == 0) return;
    if (size_bytes > task_.file.size_bytes) return restart();
    written_bytes_ = hash_file(path_, size_bytes, hash_, [this](uint64_t bytes) {
      if (settings_.cancelled()) throw FetchCancelled();
      on_bytes_(static_cast<int64_t>(bytes));
      return true;
    });
    furthest_bytes_ = written_bytes_;
    settings_.log(FetchLog::kTrace,
                  name() + ": going on from byte " + std::to_string(written_bytes_));
  }

  void restart() {
    if (::ftruncate(fd_, 0) != 0) fail(path_, "cannot write");
    on_bytes_(-static_cast<int64_t>(written_bytes_));
    written_bytes_ = 0;
    hash_ = BlobHash(task_.file.oid, task_.file.size_bytes);
  }

  void attempt() {
    if (written_bytes_ == task_.file.size_bytes) return;
    try {
      bool begun = false;
      const HttpReply reply = session_.get(task_.url, written_bytes_,
                                           [&](const HttpReply& head, std::string_view piece) {
                                             if (!begun) begin(head);
                                             begun = true;
                                             write(piece);
                                           });
      if (reply.status == 416) {  // the file that grew here is not the one that lies there
        restart();
        throw HttpError(name() + ": the hub does not go on from where the file was left", true);
      }
      if (reply.status != 200 && reply.status != 206) {
        throw status_error(reply, name(), task_.repository, settings_.endpoint);
      }
      if (written_bytes_ < task_.file.size_bytes) {
        throw HttpError(name() + ": " + std::to_string(written_bytes_) + " bytes came of " +
                            std::to_string(task_.file.size_bytes),
                        true);
      }
    } catch (HttpError& error) {
      // A hub that always begins anew and always breaks off must not keep us for ever.
      error.gained = written_bytes_ > furthest_bytes_;
      furthest_bytes_ = std::max(furthest_bytes_, written_bytes_);
      throw;
    }
  }

  // The server may send the rest, as asked, or the whole.
  void begin(const HttpReply& head) {
    if (head.status == 206) {
      const std::string range = head.header("content-range");
      if (range_begin(range) == written_bytes_) return;
      restart();
      throw HttpError(name() + ": the hub sent another part than asked for (" +
                          shown_text(range, settings_.endpoint) + ")",
                      true);
    }
    if (written_bytes_ > 0) restart();
    const std::optional<uint64_t> length = number(head.header("content-length"));
    if (length && *length != task_.file.size_bytes && head.header("content-encoding").empty()) {
      throw HttpError(name() + ": the hub sends " + std::to_string(*length) +
                          " bytes, its list says " + std::to_string(task_.file.size_bytes),
                      false);
    }
  }

  void write(std::string_view piece) {
    if (piece.size() > task_.file.size_bytes - written_bytes_) {
      throw HttpError(name() + ": the hub sends more than the " +
                          std::to_string(task_.file.size_bytes) + " bytes of its list",
                      false);
    }
    hash_.update(piece);
    transferred_bytes_ += piece.size();
    while (!piece.empty()) {
      const ssize_t written =
          ::pwrite(fd_, piece.data(), piece.size(), static_cast<off_t>(written_bytes_));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(path_, "cannot write");
      piece.remove_prefix(static_cast<size_t>(written));
      written_bytes_ += static_cast<uint64_t>(written);
      on_bytes_(written);
    }
  }

  HttpSession& session_;
  const BlobTask& task_;
  const FetchSettings& settings_;
  const std::function<void(int64_t)>& on_bytes_;
  fs::path path_;
  BlobHash hash_;
  int fd_ = -1;
  uint64_t written_bytes_ = 0;
  uint64_t furthest_bytes_ = 0;
  uint64_t transferred_bytes_ = 0;
};

uint64_t file_size_or_zero(const fs::path& path) {
  std::error_code error;
  const uintmax_t size_bytes = fs::file_size(path, error);
  return error ? 0 : static_cast<uint64_t>(size_bytes);
}

// Looks at what a task finds on the disk. Content that turns out wrong is removed at once: a run
// must not read it while the right one comes, or when it cannot be had.
class AtHand {
 public:
  AtHand(const BlobTask& task, const FetchSettings& settings,
         const std::function<void(int64_t)>& on_bytes)
      : task_(task), settings_(settings), on_bytes_(on_bytes) {}

  bool is_complete() {
    bool blob_needed = task_.linked;
    for (const fs::path& copy : task_.copies) blob_needed = !holds_content(copy) || blob_needed;
    const bool complete = !blob_needed || holds_content(task_.repository.blob(task_.file.oid));
    count(complete ? task_.file.size_bytes : 0);
    return complete;
  }

 private:
  bool holds_content(const fs::path& path) {
    count(0);
    const bool right = is_right(task_.repository, task_.file, path, [this](uint64_t bytes) {
      if (settings_.cancelled()) throw FetchCancelled();
      count(counted_bytes_ + bytes);
    });
    if (!right && counted_bytes_ > 0) remove(path);
    return right;
  }

  void remove(const fs::path& path) {
    settings_.log(FetchLog::kWarning,
                  task_.file.path + " of " + task_.repository.id() + ": " + path.string() +
                      " is not what its name says; it is removed and fetched again");
    forget(task_.repository, task_.file.oid);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail(path, "cannot remove");
  }

  void count(uint64_t bytes) {
    on_bytes_(static_cast<int64_t>(bytes) - static_cast<int64_t>(counted_bytes_));
    counted_bytes_ = bytes;
  }

  const BlobTask& task_;
  const FetchSettings& settings_;
  const std::function<void(int64_t)>& on_bytes_;
  uint64_t counted_bytes_ = 0;
};

}  // namespace

uint64_t bytes_at_hand(const BlobTask& task) {
  const HubFile& file = task.file;
  if (!task.linked || file_size_or_zero(task.repository.blob(file.oid)) == file.size_bytes)
    return file.size_bytes;
  return std::min(file.size_bytes, file_size_or_zero(task.repository.incomplete(file.oid)));
}

uint64_t fetch_blob(HttpSession& session, const BlobTask& task, const FetchSettings& settings,
                    const std::function<void(int64_t)>& on_bytes) {
  bool told = false;
  const FileLock lock(task.repository.lock(task.file.oid), [&] {
    if (!told) {
      settings.log(FetchLog::kInfo, "waiting for another process that fetches " + task.file.path +
                                        " of " + task.repository.id());
    }
    told = true;
    wait_or_cancel(settings, kLockNapSeconds);
  });
  if (AtHand(task, settings, on_bytes).is_complete()) return 0;
  return BlobDownload(session, task, settings, on_bytes).run();
}

}  // namespace sftbench
