// What TensorBoard's event files are made of: records with checksums, and protocol buffers in them.
//
// The few messages that are written here have some twenty fields of five wire types. Written by
// hand they need these hundred lines, while libprotobuf would come with generated code and a
// library of its own (and a second one beside that in libtorch). Formats:
// tensorflow/core/lib/io/record_writer.h, protobuf.dev "Encoding".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sftbench {

// CRC-32C (Castagnoli) of the bytes.
uint32_t crc32c(std::string_view bytes);

// A record of a TFRecord file: length, its masked checksum, the bytes, their masked checksum.
std::string tf_record(std::string_view bytes);

// A message in the making; fields in the order of the calls.
class Protobuf {
 public:
  Protobuf& add_int(int field, int64_t value);  // also enum and bool
  Protobuf& add_double(int field, double value);
  Protobuf& add_float(int field, float value);
  Protobuf& add_bytes(int field, std::string_view value);  // also string
  Protobuf& add(int field, const Protobuf& message);

  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int wire_type);
  void varint(uint64_t value);

  std::string bytes_;
};

}  // namespace sftbench
