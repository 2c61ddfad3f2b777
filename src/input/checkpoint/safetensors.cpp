#include "sftbench/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/json_builder.h"
#include "sftbench/base/lfs_pointer.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

struct DtypeRow {
  std::string_view name;
  int64_t size_bytes;
};

// In the order of StoredDtype.
constexpr std::array<DtypeRow, 16> kDtypes = {{{"F64", 8},
                                               {"F32", 4},
                                               {"F16", 2},
                                               {"BF16", 2},
                                               {"F8_E4M3", 1},
                                               {"F8_E5M2", 1},
                                               {"F8_E8M0", 1},
                                               {"I64", 8},
                                               {"I32", 4},
                                               {"I16", 2},
                                               {"I8", 1},
                                               {"U64", 8},
                                               {"U32", 4},
                                               {"U16", 2},
                                               {"U8", 1},
                                               {"BOOL", 1}}};

constexpr uint64_t kLengthFieldBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr size_t kMostFindings = 100;
constexpr size_t kLongestName = 200;
constexpr std::string_view kMetadataKey = "__metadata__";

class Findings {
 public:
  explicit Findings(std::string origin) : origin_(std::move(origin)) {}

  void add(const std::string& key, std::string message, std::string expected = {},
           std::string nearest = {}) {
    if (list_.size() == kMostFindings) {
      ++dropped_;
      return;
    }
    list_.push_back({.file = origin_,
                     .line = 0,
                     .key = key.size() > kLongestName ? key.substr(0, kLongestName) + "..." : key,
                     .message = std::move(message),
                     .expected = std::move(expected),
                     .nearest = std::move(nearest)});
  }
  // A tensor outside of the file. A truncated file cuts off hundreds: the first speaks for them.
  void add_outside(const std::string& key, std::string message, std::string expected) {
    if (outside_++ == 0) add(key, std::move(message), std::move(expected));
  }
  [[noreturn]] void fail(std::string message, std::string expected = {}) {
    add({}, std::move(message), std::move(expected));
    raise();
  }
  void raise_if_any() {
    if (outside_ > 1) add({}, std::to_string(outside_ - 1) + " more tensors lie outside of it");
    if (!list_.empty()) raise();
  }

 private:
  [[noreturn]] void raise() {
    if (dropped_ > 0) {
      list_.back().key.clear();
      list_.back().message = "and " + std::to_string(dropped_ + 1) + " more findings";
      list_.back().expected = list_.back().nearest = {};
    }
    throw InputError(list_);
  }

  std::string origin_;
  std::vector<Diagnostic> list_;
  size_t outside_ = 0;
  size_t dropped_ = 0;
};

uint64_t header_length(std::string_view file, Findings& findings) {
  if (file.size() < kLengthFieldBytes) {
    findings.fail("truncated: the file has " + std::to_string(file.size()) + " bytes",
                  "at least the 8 bytes of the header length of a safetensors file");
  }
  uint64_t length = 0;
  for (size_t i = kLengthFieldBytes; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(file[i]);
  if (is_lfs_pointer(file)) findings.fail(kIsLfsPointer, kOfLfsPointer);
  if (length > kMaxHeaderBytes) {
    findings.fail("absurd header length of " + std::to_string(length) + " bytes",
                  "at most " + std::to_string(kMaxHeaderBytes) + "; is this a safetensors file?");
  }
  if (length > file.size() - kLengthFieldBytes) {
    findings.fail("truncated: the header has " + std::to_string(length) +
                  " bytes, the file ends after " + std::to_string(file.size() - kLengthFieldBytes) +
                  " of them");
  }
  return length;
}

// The header's object. One of several equal names would be kept silently, so they are reported.
Json parse_header(std::string_view header, Findings& findings) {
  try {
    Json json = build_json(header, [&](size_t depth, const std::string& name) {
      if (depth == 1) findings.add(name, "duplicate tensor");
    });
    if (!json.is_object()) findings.fail("the header is not a JSON object");
    return json;
  } catch (const Json::exception& error) {
    findings.fail("the header is not JSON: " + json_problem(error));
  }
}

std::optional<StoredDtype> parse_dtype(const std::string& name, const Json& entry,
                                       Findings& findings) {
  const auto found = entry.find("dtype");
  if (found == entry.end() || !found->is_string()) {
    findings.add(name, "no dtype", "a text such as \"BF16\"");
    return std::nullopt;
  }
  const auto& text = found->get_ref<const std::string&>();
  const auto row = std::find_if(kDtypes.begin(), kDtypes.end(),
                                [&](const DtypeRow& r) { return r.name == text; });
  if (row != kDtypes.end()) return static_cast<StoredDtype>(row - kDtypes.begin());
  std::vector<std::string> known;
  for (const DtypeRow& r : kDtypes) known.emplace_back(r.name);
  findings.add(name, "unknown dtype '" + text + "'", "one of " + join(known),
               nearest_spelling(text, known));
  return std::nullopt;
}

// Unsigned integers only: 1.5, -1 and "1" are refused rather than converted.
std::optional<std::vector<uint64_t>> parse_integers(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) return std::nullopt;
  std::vector<uint64_t> values;
  for (const Json& value : *found) {
    if (!value.is_number_unsigned()) return std::nullopt;
    values.push_back(value.get<uint64_t>());
  }
  return values;
}

std::optional<uint64_t> expected_size_bytes(const std::vector<uint64_t>& shape, StoredDtype dtype) {
  uint64_t size = static_cast<uint64_t>(element_size_bytes(dtype));
  for (const uint64_t extent : shape) {
    if (extent > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    if (__builtin_mul_overflow(size, extent, &size)) return std::nullopt;
  }
  return size;
}

std::optional<StoredTensor> parse_entry(const std::string& name, const Json& entry,
                                        uint64_t data_start, uint64_t data_size,
                                        Findings& findings) {
  if (!entry.is_object()) {
    findings.add(name, "not an object",
                 "{\"dtype\": ..., \"shape\": [...], \"data_offsets\": [begin, end]}");
    return std::nullopt;
  }
  const auto dtype = parse_dtype(name, entry, findings);
  const auto shape = parse_integers(entry, "shape");
  if (!shape) findings.add(name, "no usable shape", "a list of non-negative integers");
  const auto offsets = parse_integers(entry, "data_offsets");
  if (!offsets || offsets->size() != 2) {
    findings.add(name, "no usable data_offsets", "[begin, end]");
    return std::nullopt;
  }
  const uint64_t begin = (*offsets)[0], end = (*offsets)[1];
  if (begin > end || end > data_size) {
    findings.add_outside(
        name,
        "data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) +
            "] lie outside of the file's " + std::to_string(data_size) + " bytes of data",
        begin > end ? "begin <= end" : "a whole file; this one is truncated or its header wrong");
    return std::nullopt;
  }
  if (!dtype || !shape) return std::nullopt;
  const auto size = expected_size_bytes(*shape, *dtype);
  if (!size || *size != end - begin) {
    findings.add(name, "has " + std::to_string(end - begin) + " bytes",
                 size ? std::to_string(*size) + " bytes for its shape and dtype"
                      : "a shape that fits into memory");
    return std::nullopt;
  }
  return StoredTensor{.name = name,
                      .dtype = *dtype,
                      .shape = {shape->begin(), shape->end()},
                      .offset_bytes = data_start + begin,
                      .size_bytes = end - begin};
}

// Tensors sorted by place must follow each other without overlap or gap, up to the last byte.
void check_coverage(const std::vector<StoredTensor>& tensors, uint64_t data_start,
                    uint64_t file_size, Findings& findings) {
  uint64_t end_of_previous = data_start;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.offset_bytes < end_of_previous) {
      findings.add(tensor.name, "overlaps the tensor before it by " +
                                    std::to_string(end_of_previous - tensor.offset_bytes) +
                                    " bytes");
    } else if (tensor.offset_bytes > end_of_previous) {
      findings.add(tensor.name, "a gap of " +
                                    std::to_string(tensor.offset_bytes - end_of_previous) +
                                    " bytes that belong to no tensor stands before it");
    }
    end_of_previous = std::max(end_of_previous, tensor.offset_bytes + tensor.size_bytes);
  }
  if (end_of_previous < file_size) {
    findings.add(
        {}, std::to_string(file_size - end_of_previous) + " bytes at the end belong to no tensor");
  }
}

}  // namespace

std::string_view to_string(StoredDtype dtype) {
  return kDtypes.at(static_cast<size_t>(dtype)).name;
}

int64_t element_size_bytes(StoredDtype dtype) {
  return kDtypes.at(static_cast<size_t>(dtype)).size_bytes;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> parts;
  for (const int64_t extent : shape) parts.push_back(std::to_string(extent));
  return "[" + join(parts) + "]";
}

std::vector<StoredTensor> read_safetensors_header(std::string_view file,
                                                  const std::string& origin) {
  Findings findings(origin);
  const uint64_t length = header_length(file, findings);
  const Json header = parse_header(file.substr(kLengthFieldBytes, length), findings);
  const uint64_t data_start = kLengthFieldBytes + length;

  std::vector<StoredTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadataKey) continue;
    if (auto tensor = parse_entry(name, entry, data_start, file.size() - data_start, findings)) {
      tensors.push_back(std::move(*tensor));
    }
  }
  findings.raise_if_any();
  std::ranges::stable_sort(tensors, {}, [](const StoredTensor& tensor) {
    return std::pair(tensor.offset_bytes, tensor.size_bytes);
  });
  check_coverage(tensors, data_start, file.size(), findings);
  findings.raise_if_any();
  return tensors;
}

}  // namespace sftbench
