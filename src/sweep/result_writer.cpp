#include "sweep/result_writer.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

// On a busy disk a result takes tens of milliseconds to become durable. Writes that wait together
// share what the disk does, so more of them make it no slower.
constexpr size_t kBusyWrites = 64;
// Each of them holds a claim, which other workers come upon.
constexpr size_t kBusyWritesOfWorker = 8;

}  // namespace

std::vector<std::string> unsaved_folders(const Measurement& measurement) {
  std::vector<std::string> problems;
  const auto unsaved = measurement.extra.find("unsaved");
  if (unsaved == measurement.extra.end()) return problems;
  for (const Json& folder : *unsaved) {
    problems.push_back("cannot save " + folder.at("path").get<std::string>() + ": " +
                       folder.at("problem").get<std::string>());
  }
  return problems;
}

ResultWriter::ResultWriter(const ResultStore& store, bool beside_others)
    : store_(store),
      busy_writes_(beside_others ? kBusyWritesOfWorker : kBusyWrites),
      fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

ResultWriter::~ResultWriter() {
  for (Pending& pending : pending_) pending.thread.join();
  ::close(fd_);
}

void ResultWriter::write(Ended ended) {
  Pending& pending = pending_.emplace_back();
  pending.ended = std::move(ended);
  pending.thread = std::thread([this, &pending] { write_now(pending); });
}

void ResultWriter::write_now(Pending& pending) const {
  Ended& ended = pending.ended;
  try {
    store_.write(ended.measurement, ended.cell.key, ended.cell.sample,
                 [&ended](const std::filesystem::path& path, std::string_view content) {
                   ended.claim->publish(path, content);
                 });
  } catch (const ClaimLost& lost) {
    ended.lost = lost.what();
  } catch (const std::exception& error) {  // one that left the thread would end the sweep
    ended.problem = error.what();
  }
  pending.written = true;
  ::eventfd_write(fd_, 1);
}

std::vector<Ended> ResultWriter::take_written() {
  eventfd_t ignored = 0;
  ::eventfd_read(fd_, &ignored);  // before the look: what is written after it wakes the loop again
  std::vector<Ended> written;
  for (auto pending = pending_.begin(); pending != pending_.end();) {
    if (!pending->written) {
      ++pending;
      continue;
    }
    pending->thread.join();
    written.push_back(std::move(pending->ended));
    pending = pending_.erase(pending);
  }
  return written;
}

bool ResultWriter::busy() const {
  return pending_.size() >= busy_writes_;
}

}  // namespace sftbench
