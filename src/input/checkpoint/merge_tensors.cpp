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

// The sum of a weight and its delta, element by element.
struct Addends {
  const std::vector<std::byte>& weight;
  StoredDtype dtype;
  std::vector<float> left, right;
  size_t rank;
  float scaling;

  size_t rows() const { return left.size() / rank; }
  size_t columns() const { return right.size() / rank; }
};

// Calls put(index, value) for each element of rows [begin, end).
template <class Put>
void for_each_sum(const Addends& addends, size_t begin, size_t end, const Put& put) {
  const size_t columns = addends.columns();
  std::vector<float> row(columns);
  for (size_t i = begin; i < end; ++i) {
    std::fill(row.begin(), row.end(), 0.0F);
    for (size_t k = 0; k < addends.rank; ++k) {
      const float factor = addends.left[i * addends.rank + k];
      const float* values = addends.right.data() + k * columns;
      for (size_t j = 0; j < columns; ++j) row[j] += factor * values[j];
    }
    for (size_t j = 0; j < columns; ++j) {
      const size_t index = i * columns + j;
      put(index, element(addends.dtype, addends.weight.data(), index) + addends.scaling * row[j]);
    }
  }
}

// Calls use(begin, end) on the parts of `rows`, each on a thread of its own.
template <class Use>
void on_threads(size_t rows, int threads, const Use& use) {
  const size_t count =
      std::clamp<size_t>(static_cast<size_t>(std::max(threads, 1)), 1, std::max<size_t>(rows, 1));
  std::vector<std::thread> others;
  for (size_t t = 0; t < count; ++t)
    others.emplace_back([&, t] { use(rows * t / count, rows * (t + 1) / count); });
  for (std::thread& thread : others) thread.join();
}

// What each output's row of the sums is multiplied with, so that it is as long as its magnitude.
std::vector<float> factors_of(const std::vector<float>& sums, const std::vector<float>& magnitudes,
                              bool outputs_are_columns) {
  const size_t outputs = magnitudes.size(), inputs = sums.size() / outputs;
  std::vector<double> squares(outputs);
  for (size_t index = 0; index < sums.size(); ++index) {
    const size_t output = outputs_are_columns ? index % outputs : index / inputs;
    squares[output] += static_cast<double>(sums[index]) * sums[index];
  }
  std::vector<float> factors(outputs);
  for (size_t output = 0; output < outputs; ++output)
    factors[output] = magnitudes[output] / static_cast<float>(std::sqrt(squares[output]));
  return factors;
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
  Addends addends{weight, dtype, floats_of(delta.b), floats_of(delta.a), rank, delta.scaling};
  if (delta.transposed) {  // (B A)^T = A^T B^T
    std::swap(addends.left, addends.right);
    addends.left = transposed(addends.left, rank);
    addends.right = transposed(addends.right, addends.right.size() / rank);
  }
  std::atomic<bool> finite = true;
  const auto put = [&](size_t index, float value) {
    const bool was_finite = std::isfinite(element(dtype, weight.data(), index));
    set_element(dtype, weight.data(), index, value);
    if (was_finite && !std::isfinite(element(dtype, weight.data(), index))) finite = false;
  };
  if (delta.magnitude.tensor == nullptr) {
    on_threads(addends.rows(), threads,
               [&](size_t begin, size_t end) { for_each_sum(addends, begin, end, put); });
  } else {
    std::vector<float> sums(addends.rows() * addends.columns());
    on_threads(addends.rows(), threads, [&](size_t begin, size_t end) {
      for_each_sum(addends, begin, end, [&](size_t index, float sum) { sums[index] = sum; });
    });
    const std::vector<float> factors =
        factors_of(sums, floats_of(delta.magnitude), delta.transposed);
    const size_t columns = addends.columns();
    for (size_t index = 0; index < sums.size(); ++index)
      put(index, factors[delta.transposed ? index % columns : index / columns] * sums[index]);
  }
  if (!finite) refuse_overflow(delta.b, dtype);
}

}  // namespace sftbench
