// NCCL between processes of one machine: ranks hand over what they send in shared memory. Calls,
// meanings and errors are those of nccl.h; a call returns at once, and its stream's thread does it.
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "phantom/launches.h"
#include "phantom/settings.h"
#include "phantom/streams.h"

namespace sftbench::phantom {
namespace {

constexpr int kMostRanks = 64;
constexpr size_t kSlot = size_t{8} << 20;    // what a rank hands over at once
constexpr size_t kLetter = size_t{1} << 20;  // what one rank sends to one other at once

// Zeros at the start, as shared memory is.
struct Shared {
  std::atomic<int> joined;
  std::atomic<int> arrived;
  std::atomic<uint64_t> generation;
  std::atomic<uint64_t> letters[kMostRanks][kMostRanks];  // even: empty, odd: full
};

struct Aborted {};

size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

float widened(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t rounded_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <typename T>
T combined(T a, T b, ncclRedOp_t op) {
  if (op == ncclMax) return std::max(a, b);
  return op == ncclMin ? std::min(a, b) : static_cast<T>(a + b);
}

template <typename T>
void reduce(void* to, const std::vector<const char*>& from, size_t count, ncclRedOp_t op) {
  auto* result = static_cast<T*>(to);
  for (size_t i = 0; i < count; ++i) {
    T value = reinterpret_cast<const T*>(from[0])[i];
    for (size_t r = 1; r < from.size(); ++r)
      value = combined(value, reinterpret_cast<const T*>(from[r])[i], op);
    result[i] = op == ncclAvg ? static_cast<T>(value / static_cast<T>(from.size())) : value;
  }
}

// Summed in float32 and rounded once.
void reduce_bfloat16(void* to, const std::vector<const char*>& from, size_t count, ncclRedOp_t op) {
  auto* result = static_cast<uint16_t*>(to);
  for (size_t i = 0; i < count; ++i) {
    float value = widened(reinterpret_cast<const uint16_t*>(from[0])[i]);
    for (size_t r = 1; r < from.size(); ++r) {
      value = combined(value, widened(reinterpret_cast<const uint16_t*>(from[r])[i]), op);
    }
    if (op == ncclAvg) value /= static_cast<float>(from.size());
    result[i] = rounded_to_bfloat16(value);
  }
}

void reduce(void* to, const std::vector<const char*>& from, size_t count, ncclDataType_t type,
            ncclRedOp_t op) {
  switch (type) {
    case ncclFloat32:
      return reduce<float>(to, from, count, op);
    case ncclFloat64:
      return reduce<double>(to, from, count, op);
    case ncclFloat16:
      return reduce<_Float16>(to, from, count, op);
    case ncclBfloat16:
      return reduce_bfloat16(to, from, count, op);
    case ncclInt32:
      return reduce<int32_t>(to, from, count, op);
    case ncclInt64:
      return reduce<int64_t>(to, from, count, op);
    case ncclInt8:
      return reduce<int8_t>(to, from, count, op);
    default:
      return reduce<uint8_t>(to, from, count, op);
  }
}

struct Letter {
  bool outgoing;
  int peer;
  char* data;
  size_t bytes;
};

}  // namespace
}  // namespace sftbench::phantom

struct ncclComm {
  using Shared = sftbench::phantom::Shared;

  ncclComm(const std::string& name, int own_rank, int ranks)
      : rank(own_rank), size(ranks), name_(name) {
    if (!sftbench::phantom::settings().computes()) return;
    const size_t n = static_cast<size_t>(size);
    bytes_ = sizeof(Shared) + n * sftbench::phantom::kSlot + n * n * sftbench::phantom::kLetter;
    const int file = ::shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes_)) != 0)
      std::perror("phantom NCCL: shared memory");
    base_ = static_cast<char*>(
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0));
    ::close(file);
    shared = reinterpret_cast<Shared*>(base_);
    if (++shared->joined == size) ::shm_unlink(name.c_str());  // all have it open
  }
  ~ncclComm() {
    if (shared == nullptr) return;
    if (shared->joined < size) ::shm_unlink(name_.c_str());
    ::munmap(base_, bytes_);
  }

  char* slot(int r) const {
    return base_ + sizeof(Shared) + static_cast<size_t>(r) * sftbench::phantom::kSlot;
  }
  char* letter(int from, int to) const {
    return slot(size) + static_cast<size_t>(from * size + to) * sftbench::phantom::kLetter;
  }

  template <typename Condition>
  void until(const Condition& condition) const {
    for (int tries = 0; !condition(); ++tries) {
      if (aborted) throw sftbench::phantom::Aborted{};
      if (tries > 1000) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  void barrier() {
    const uint64_t generation = shared->generation;
    if (++shared->arrived == size) {
      shared->arrived = 0;
      ++shared->generation;
      return;
    }
    until([&] { return shared->generation != generation; });
  }

  // Every rank puts a piece of what it sends into its slot, and takes what it needs from all slots.
  template <typename Put, typename Take>
  void exchange(const Put& put, const Take& take) {
    put(slot(rank));
    barrier();
    take();
    barrier();
  }

  std::vector<const char*> slots(size_t offset) const {
    std::vector<const char*> all;
    for (int r = 0; r < size; ++r) all.push_back(slot(r) + offset);
    return all;
  }

  const int rank, size;
  std::atomic<bool> aborted{false};
  std::atomic<int> running{0};
  Shared* shared = nullptr;
  std::vector<sftbench::phantom::Letter> letters;  // of an open group
  cudaStream_t letters_stream = nullptr;

 private:
  std::string name_;
  size_t bytes_ = 0;
  char* base_ = nullptr;
};

namespace sftbench::phantom {
namespace {

thread_local int open_groups = 0;
thread_local std::vector<ncclComm*> comms_of_group;

// A communicator that is given up while its stream still works in it is left to the end of the
// process.
ncclResult_t put(const char* name, ncclComm* comm, cudaStream_t stream, Work work) {
  launches().count_call(name);
  if (!settings().computes()) return ncclSuccess;
  ++comm->running;
  streams()
      .at(reinterpret_cast<Streams::Id>(stream))
      .put(
          [comm, work = std::move(work)] {
            try {
              work();
            } catch (const Aborted&) {
            }
            --comm->running;
          },
          Stream::When::kSoon);
  return ncclSuccess;
}

void deliver(ncclComm* comm, std::vector<Letter> letters) {
  size_t left = letters.size();
  while (left > 0) {
    for (Letter& letter : letters) {
      if (letter.bytes == 0) continue;
      const int from = letter.outgoing ? comm->rank : letter.peer;
      const int to = letter.outgoing ? letter.peer : comm->rank;
      std::atomic<uint64_t>& state = comm->shared->letters[from][to];
      if ((state % 2 == 0) != letter.outgoing) continue;
      const size_t piece = std::min(letter.bytes, kLetter);
      char* const box = comm->letter(from, to);
      if (letter.outgoing) std::memcpy(box, letter.data, piece);
      if (!letter.outgoing) std::memcpy(letter.data, box, piece);
      ++state;
      letter.data += piece;
      letter.bytes -= piece;
      if (letter.bytes == 0) --left;
    }
    if (comm->aborted) throw Aborted{};
    std::this_thread::yield();
  }
}

ncclResult_t post(ncclComm* comm, Letter letter, cudaStream_t stream) {
  comm->letters.push_back(letter);
  comm->letters_stream = stream;
  comms_of_group.push_back(comm);
  if (open_groups > 0) return ncclSuccess;
  ++open_groups;
  return ncclGroupEnd();
}

}  // namespace
}  // namespace sftbench::phantom

using namespace sftbench::phantom;  // NOLINT: every function below is a name of NCCL's

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  std::snprintf(id->internal, sizeof id->internal, "/sftbench-phantom-%d-%08x%08x",
                static_cast<int>(::getpid()), random(), random());
  return ncclSuccess;
}

// Where nothing is computed no peer comes, and none is missed: one rank stands for all.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  if (size > kMostRanks && settings().computes()) return ncclInvalidArgument;
  *comm = new ncclComm(id.internal, rank, size);
  return settings().computes() ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const bool met = !settings().computes() || comm->shared->joined >= comm->size;
  *state = met ? ncclSuccess : ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  comm->until([&] { return comm->running == 0; });
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->aborted = true;
  for (int tries = 0; comm->running > 0 && tries < 1000; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (comm->running == 0) delete comm;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "phantom NCCL: an error";
}
const char* ncclGetLastError(ncclComm_t) {
  return "";
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return put("ncclAllReduce", comm, stream, [=] {
    const size_t element = size_of(type), most = kSlot / element;
    for (size_t begin = 0; begin < count; begin += most) {
      const size_t now = std::min(most, count - begin);
      comm->exchange(
          [&](char* slot) {
            std::memcpy(slot, static_cast<const char*>(from) + begin * element, now * element);
          },
          [&] { reduce(static_cast<char*>(to) + begin * element, comm->slots(0), now, type, op); });
    }
  });
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return put("ncclAllGather", comm, stream, [=] {
    const size_t bytes = count * size_of(type);
    for (size_t begin = 0; begin < bytes; begin += kSlot) {
      const size_t now = std::min(kSlot, bytes - begin);
      comm->exchange(
          [&](char* slot) { std::memcpy(slot, static_cast<const char*>(from) + begin, now); },
          [&] {
            for (int r = 0; r < comm->size; ++r) {
              std::memcpy(static_cast<char*>(to) + static_cast<size_t>(r) * bytes + begin,
                          comm->slot(r), now);
            }
          });
    }
  });
}

// A slot holds a piece for every rank.
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return put("ncclReduceScatter", comm, stream, [=] {
    const size_t element = size_of(type);
    const size_t most =
        kSlot / element / static_cast<size_t>(comm->size) / 8 * 8;  // every type stays aligned
    for (size_t begin = 0; begin < count; begin += most) {
      const size_t now = std::min(most, count - begin);
      comm->exchange(
          [&](char* slot) {
            for (size_t r = 0; r < static_cast<size_t>(comm->size); ++r) {
              std::memcpy(slot + r * most * element,
                          static_cast<const char*>(from) + (r * count + begin) * element,
                          now * element);
            }
          },
          [&] {
            reduce(static_cast<char*>(to) + begin * element,
                   comm->slots(static_cast<size_t>(comm->rank) * most * element), now, type, op);
          });
    }
  });
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return put("ncclBroadcast", comm, stream, [=] {
    const size_t bytes = count * size_of(type);
    for (size_t begin = 0; begin < bytes; begin += kSlot) {
      const size_t now = std::min(kSlot, bytes - begin);
      comm->exchange(
          [&](char* slot) {
            if (comm->rank == root) std::memcpy(slot, static_cast<const char*>(from) + begin, now);
          },
          [&] { std::memmove(static_cast<char*>(to) + begin, comm->slot(root), now); });
    }
  });
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return post(comm,
              {true, peer, static_cast<char*>(const_cast<void*>(from)), count * size_of(type)},
              stream);
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return post(comm, {false, peer, static_cast<char*>(to), count * size_of(type)}, stream);
}

ncclResult_t ncclGroupStart() {
  ++open_groups;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--open_groups > 0) return ncclSuccess;
  for (ncclComm* comm : comms_of_group) {
    if (comm->letters.empty()) continue;
    put("ncclGroup", comm, comm->letters_stream,
        [comm, letters = std::move(comm->letters)] { deliver(comm, letters); });
    comm->letters.clear();
  }
  comms_of_group.clear();
  return ncclSuccess;
}

}  // extern "C"
