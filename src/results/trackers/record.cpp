#include "trackers/record.h"

#include <array>
#include <bit>
#include <cstring>

namespace sftbench {
namespace {

constexpr uint32_t kReversedCastagnoli = 0x82F63B78;
constexpr uint32_t kMaskDelta = 0xA282EAD8;

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReversedCastagnoli : 0);
    }
    table[byte] = crc;
  }
  return table;
}

// Little-endian, whatever the machine is.
template <typename Number>
void append_bytes(std::string& text, Number number) {
  for (size_t i = 0; i < sizeof number; ++i) text += static_cast<char>(number >> (8 * i));
}

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + kMaskDelta;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_crc_table();
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  }
  return ~crc;
}

std::string tf_record(std::string_view bytes) {
  std::string record;
  append_bytes(record, static_cast<uint64_t>(bytes.size()));
  append_bytes(record, masked_crc32c(record));
  record += bytes;
  append_bytes(record, masked_crc32c(bytes));
  return record;
}

void Protobuf::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
  bytes_ += static_cast<char>(value);
}

void Protobuf::tag(int field, int wire_type) {
  varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
}

Protobuf& Protobuf::add_int(int field, int64_t value) {
  tag(field, 0);
  varint(static_cast<uint64_t>(value));
  return *this;
}

Protobuf& Protobuf::add_double(int field, double value) {
  tag(field, 1);
  append_bytes(bytes_, std::bit_cast<uint64_t>(value));
  return *this;
}

Protobuf& Protobuf::add_float(int field, float value) {
  tag(field, 5);
  append_bytes(bytes_, std::bit_cast<uint32_t>(value));
  return *this;
}

Protobuf& Protobuf::add_bytes(int field, std::string_view value) {
  tag(field, 2);
  varint(value.size());
  bytes_ += value;
  return *this;
}

Protobuf& Protobuf::add(int field, const Protobuf& message) {
  return add_bytes(field, message.bytes());
}

}  // namespace sftbench
