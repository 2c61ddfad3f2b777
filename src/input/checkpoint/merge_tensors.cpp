#include "checkpoint/merge_tensors.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>

#include "checkpoint/half.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace {

std::vector<std::byte> bytes_of(const Place& place) {
  std::vector<std::byte> bytes(place.tensor->size_bytes);
  place.shard->read(*place.tensor, 0, bytes.data(), bytes.size());
  return bytes;
}

float element(StoredDtype dtype, const std::byte* bytes, size_t index) {
  float value = 0;
  uint16_t half = 0;
  if (dtype == StoredDtype::kF32) {
    std::memcpy(&value, bytes + 4 * index, 4);
    return value;
  }
  std::memcpy(&half, bytes + 2 * index, 2);
  return dtype == StoredDtype::kBF16 ? from_bfloat16(half) : from_float16(half);
}

void set_element(StoredDtype dtype, std::byte* bytes, size_t index, float value) {
  if (dtype == StoredDtype::kF32) {
    std::memcpy(bytes + 4 * index, &value, 4);
    return;
  }
  const uint16_t half = dtype == StoredDtype::kBF16 ? to_bfloat16(value) : to_float16(value);
  std::memcpy(bytes + 2 * index, &half, 2);
}

[[noreturn]] void refuse_overflow(const Place& place, StoredDtype dtype) {
  throw InputError({finding(place.shard->path, place.tensor->name,
                            "makes a weight that " + std::string(to_string(dtype)) +
                                " does not hold: it would be infinite",
                            "the scaling, and the base, that it was trained with")});
}

// [columns, rows] of [rows, columns].
std::vector<float> transposed(const std::vector<float>& values, size_t rows) {
  const size_t columns = values.size() / rows;
  std::vector<float> result(values.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) result[j * rows + i] = values[i * columns + j];
  }
  return result;
}

// Rows [begin, end) of weight += scaling * left right. False: a finite element is not finite any more.
bool add_rows(std::vector<std::byte>& weight, StoredDtype dtype, const std::vector<float>& left,
              const std::vector<float>& right, size_t rank, float scaling, size_t begin,
              size_t end) {
  const size_t columns = right.size() / rank;
  std::vector<float> row(columns);
  bool finite = true;
  for (size_t i = begin; i < end; ++i) {
    std::fill(row.begin(), row.end(), 0.0F);
    for (size_t k = 0; k < rank; ++k) {
      const float factor = left[i * rank + k];
      const float* values = right.data() + k * columns;
      for (size_t j = 0; j < columns; ++j) row[j] += factor * values[j];
    }
    for (size_t j = 0; j < columns; ++j) {
      const size_t index = i * columns + j;
      const float before = element(dtype, weight.data(), index);
      set_element(dtype, weight.data(), index, before + scaling * row[j]);
      const float after = element(dtype, weight.data(), index);
      finite = finite && (std::isfinite(after) || !std::isfinite(before));
    }
  }
  return finite;
}

}  // namespace

bool is_float(StoredDtype dtype) {
  return dtype == StoredDtype::kF32 || dtype == StoredDtype::kBF16 || dtype == StoredDtype::kF16;
}

std::vector<float> floats_of(const Place& place) {
  const std::vector<std::byte> bytes = bytes_of(place);
  std::vector<float> values(static_cast<size_t>(place.tensor->numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = element(place.tensor->dtype, bytes.data(), i);
  }
  return values;
}

std::vector<std::byte> converted(const Place& place, StoredDtype dtype) {
  if (place.tensor->dtype == dtype) return bytes_of(place);
  const std::vector<float> values = floats_of(place);
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(element_size_bytes(dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    set_element(dtype, bytes.data(), i, values[i]);
    if (!std::isfinite(element(dtype, bytes.data(), i))) refuse_overflow(place, dtype);
  }
  return bytes;
}

void add_delta(std::vector<std::byte>& weight, StoredDtype dtype, const Delta& delta, int threads) {
  const auto rank = static_cast<size_t>(delta.a.tensor->shape[0]);
  std::vector<float> left = floats_of(delta.b), right = floats_of(delta.a);
  if (delta.transposed) {  // (B A)^T = A^T B^T
    std::swap(left, right);
    left = transposed(left, rank);
    right = transposed(right, right.size() / rank);
  }
  const size_t rows = left.size() / rank;
  const size_t count =
      std::clamp<size_t>(static_cast<size_t>(std::max(threads, 1)), 1, std::max<size_t>(rows, 1));
  std::vector<std::thread> others;
  std::atomic<bool> finite = true;
  for (size_t t = 0; t < count; ++t) {
    others.emplace_back([&, t] {
      if (!add_rows(weight, dtype, left, right, rank, delta.scaling, rows * t / count,
                    rows * (t + 1) / count)) {
        finite = false;
      }
    });
  }
  for (std::thread& thread : others) thread.join();
  if (!finite) refuse_overflow(delta.b, dtype);
}

}  // namespace sftbench
