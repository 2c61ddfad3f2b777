#if SFTBENCH_GLOO

#include "parallel/gloo_transfers.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>

#include "sftbench/base/clock.h"

namespace sftbench {
namespace {

// Up to here a gather goes directly: N - 1 messages at once instead of one after the other.
constexpr int64_t kDirectGatherBytes = 64 << 10;
// Of a slot, whose operation leaves it free: results that travel beside what they are made of.
constexpr uint64_t kOfResults = uint64_t{1} << 31;

}  // namespace

// Memory that transfers of one operation read or write. Outlives them: wait for all of them, or
// leave by an exception.
class GlooTransfers::Buffer {
 public:
  Buffer(GlooTransfers& transfers, const void* data, int64_t bytes, uint64_t slot_bits = 0)
      : transfers_(transfers),
        slot_(transfers.slot_ | slot_bits),
        buffer_(transfers.context_->createUnboundBuffer(const_cast<void*>(data),
                                                        static_cast<size_t>(bytes))) {
    const std::lock_guard lock(transfers_.mutex_);
    if (transfers_.aborted_) throw GlooAborted();
    transfers_.active_.insert(buffer_.get());
  }

  ~Buffer() {
    const std::lock_guard lock(transfers_.mutex_);
    transfers_.active_.erase(buffer_.get());
  }

  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void send(int peer, int64_t offset, int64_t bytes) {
    buffer_->send(peer, slot_, static_cast<size_t>(offset), static_cast<size_t>(bytes));
    transfers_.sent_bytes_ += bytes;
    ++sending_;
  }

  void receive(int peer, int64_t offset, int64_t bytes) {
    buffer_->recv(peer, slot_, static_cast<size_t>(offset), static_cast<size_t>(bytes));
  }

  void wait_received(int count = 1) {
    for (; count > 0; --count) {
      if (!buffer_->waitRecv(nullptr, time_left())) throw GlooAborted();
    }
  }

  void wait_sent() {
    for (; sending_ > 0; --sending_) {
      if (!buffer_->waitSend(nullptr, time_left())) throw GlooAborted();
    }
  }

 private:
  // Rounded up: a wait that ends before the deadline would look like a lost connection.
  std::chrono::milliseconds time_left() const {
    const double left_s = transfers_.end_s_ - steady_seconds();
    return std::chrono::milliseconds(
        std::max<int64_t>(1, static_cast<int64_t>(std::ceil(left_s * 1e3))));
  }

  GlooTransfers& transfers_;
  const uint64_t slot_;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  int sending_ = 0;
};

GlooTransfers::GlooTransfers(std::shared_ptr<gloo::Context> context)
    : context_(std::move(context)) {}

void GlooTransfers::begin(uint64_t slot, double end_s) {
  slot_ = slot;
  end_s_ = end_s;
  sent_bytes_ = 0;
}

void GlooTransfers::all_gather(void* whole, int64_t part_bytes) {
  if (part_bytes == 0) return;
  const int n = size();
  Buffer buffer(*this, whole, part_bytes * n);
  const auto before = [&](int distance) { return (rank() + n - distance) % n; };
  const auto after = [&](int distance) { return (rank() + distance) % n; };
  if (part_bytes * n <= kDirectGatherBytes) {
    for (int i = 1; i < n; ++i) {
      buffer.receive(before(i), before(i) * part_bytes, part_bytes);
      buffer.send(after(i), rank() * part_bytes, part_bytes);
    }
    buffer.wait_received(n - 1);
  } else {
    // Parts come from the left in the order in which they go on to the right.
    for (int i = 1; i < n; ++i) buffer.receive(before(1), before(i) * part_bytes, part_bytes);
    for (int i = 0; i < n - 1; ++i) {
      buffer.send(after(1), before(i) * part_bytes, part_bytes);
      buffer.wait_received();
    }
  }
  buffer.wait_sent();
}

void GlooTransfers::all_to_all(void* output, const void* input, int64_t part_bytes) {
  const std::vector<int64_t> parts(static_cast<size_t>(size()), part_bytes);
  all_to_all(output, input, parts, parts);
}

void GlooTransfers::all_to_all(void* output, const void* input,
                               const std::vector<int64_t>& output_bytes,
                               const std::vector<int64_t>& input_bytes) {
  const int n = size();
  std::vector<int64_t> to_at(static_cast<size_t>(n) + 1), from_at(to_at);
  std::partial_sum(output_bytes.begin(), output_bytes.end(), to_at.begin() + 1);
  std::partial_sum(input_bytes.begin(), input_bytes.end(), from_at.begin() + 1);
  Buffer to(*this, output, to_at.back());
  Buffer from(*this, input, from_at.back());
  int received = 0;
  for (int i = 1; i < n; ++i) {
    const auto source = static_cast<size_t>((rank() + n - i) % n);
    const auto target = static_cast<size_t>((rank() + i) % n);
    if (output_bytes[source] > 0) {
      to.receive(static_cast<int>(source), to_at[source], output_bytes[source]);
      ++received;
    }
    if (input_bytes[target] > 0) {
      from.send(static_cast<int>(target), from_at[target], input_bytes[target]);
    }
  }
  const auto own = static_cast<size_t>(rank());
  if (input_bytes[own] > 0) {
    std::memcpy(static_cast<char*>(output) + to_at[own],
                static_cast<const char*>(input) + from_at[own],
                static_cast<size_t>(input_bytes[own]));
  }
  to.wait_received(received);
  from.wait_sent();
}

void GlooTransfers::reduce_scatter(const void* input, int64_t part_bytes, const ReduceChunk& reduce,
                                   int64_t most_chunk_bytes) {
  if (part_bytes == 0) return;
  const int n = size();
  const int64_t chunk_bytes = std::min(part_bytes, most_chunk_bytes);
  const int64_t chunks = (part_bytes + chunk_bytes - 1) / chunk_bytes;
  const int64_t half_bytes = chunk_bytes * (n - 1);
  if (scratch_bytes() < 2 * half_bytes) scratch_.resize(static_cast<size_t>(2 * half_bytes));

  Buffer from(*this, input, part_bytes * n);
  std::array<Buffer, 2> halves{Buffer(*this, scratch_.data(), half_bytes),
                               Buffer(*this, scratch_.data() + half_bytes, half_bytes)};
  const auto bytes_of = [&](int64_t chunk) {
    return std::min(chunk_bytes, part_bytes - chunk * chunk_bytes);
  };
  const auto post = [&](int64_t chunk) {
    if (chunk >= chunks) return;
    for (int i = 1; i < n; ++i) {
      const int target = (rank() + i) % n;
      halves[chunk % 2].receive((rank() + n - i) % n, (i - 1) * chunk_bytes, bytes_of(chunk));
      from.send(target, target * part_bytes + chunk * chunk_bytes, bytes_of(chunk));
    }
  };

  std::vector<const void*> parts(static_cast<size_t>(n));
  post(0);
  post(1);  // travels while chunk 0 is added
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    halves[chunk % 2].wait_received(n - 1);
    const int64_t offset = chunk * chunk_bytes;
    const char* received = scratch_.data() + (chunk % 2) * half_bytes;
    for (int i = 1; i < n; ++i) parts[(rank() + n - i) % n] = received + (i - 1) * chunk_bytes;
    parts[rank()] = static_cast<const char*>(input) + rank() * part_bytes + offset;
    reduce(parts, offset, bytes_of(chunk));
    post(chunk + 2);
  }
  from.wait_sent();
}

void GlooTransfers::all_reduce(void* whole, int64_t part_bytes, const ReduceChunk& reduce) {
  if (part_bytes == 0) return;
  const int n = size();
  const int64_t chunks = (part_bytes + kSmallChunkBytes - 1) / kSmallChunkBytes;
  // A sum comes back only from who has received all of its terms, so it never overwrites one that
  // is still to be sent.
  Buffer sums(*this, whole, part_bytes * n, kOfResults);
  for (int i = 1; i < n; ++i) {
    const int source = (rank() + n - i) % n;
    for (int64_t begin = 0; begin < part_bytes; begin += kSmallChunkBytes) {
      sums.receive(source, source * part_bytes + begin,
                   std::min(kSmallChunkBytes, part_bytes - begin));
    }
  }
  const auto reduce_and_send = [&](const std::vector<const void*>& parts, int64_t offset,
                                   int64_t bytes) {
    reduce(parts, offset, bytes);
    for (int i = 1; i < n; ++i) {
      sums.send((rank() + i) % n, rank() * part_bytes + offset, bytes);
    }
  };
  reduce_scatter(whole, part_bytes, reduce_and_send, kSmallChunkBytes);
  sums.wait_received(static_cast<int>(chunks) * (n - 1));
  sums.wait_sent();
}

void GlooTransfers::broadcast(void* data, int64_t bytes, int root) {
  if (bytes == 0) return;
  const int n = size();
  const int place = (rank() + n - root) % n;
  const int64_t chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
  const auto bytes_of = [&](int64_t chunk) {
    return std::min(kChunkBytes, bytes - chunk * kChunkBytes);
  };
  Buffer buffer(*this, data, bytes);
  if (place > 0) {
    const int source = (rank() + n - 1) % n;
    for (int64_t c = 0; c < chunks; ++c) buffer.receive(source, c * kChunkBytes, bytes_of(c));
  }
  for (int64_t c = 0; c < chunks; ++c) {
    if (place > 0) buffer.wait_received();
    if (place < n - 1) buffer.send((rank() + 1) % n, c * kChunkBytes, bytes_of(c));
  }
  buffer.wait_sent();
}

void GlooTransfers::barrier() {
  Buffer nothing(*this, nullptr, 0);
  for (int i = 1; i < size(); ++i) {
    nothing.receive((rank() + size() - i) % size(), 0, 0);
    nothing.send((rank() + i) % size(), 0, 0);
  }
  nothing.wait_received(size() - 1);
  nothing.wait_sent();
}

void GlooTransfers::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  for (gloo::transport::UnboundBuffer* buffer : active_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
}

void GlooTransfers::close() {
  context_->closeConnections();
}

}  // namespace sftbench

#endif
