#include "sftbench/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors_builder.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const std::string& file) {
  return message_of<InputError>([&] { read_safetensors_header(file, "w.safetensors"); });
}

TEST(SafetensorsHeader, GivesNameDtypeShapeAndPlace) {
  const std::string header = "{\"__metadata__\":{\"format\":\"pt\"}," +
                             entry("b", "F32", "[2,3]", "[2,26]") + "," +
                             entry("a", "BF16", "[1]", "[0,2]") + "}  ";
  const auto tensors = read_safetensors_header(safetensors(header, 26), "w");
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].dtype, StoredDtype::kBF16);
  EXPECT_EQ(tensors[0].offset_bytes, 8 + header.size());
  EXPECT_EQ(tensors[1].name, "b");
  EXPECT_THAT(tensors[1].shape, ElementsAre(2, 3));
  EXPECT_EQ(tensors[1].offset_bytes, 8 + header.size() + 2);
  EXPECT_EQ(tensors[1].size_bytes, 24u);
  EXPECT_EQ(tensors[1].numel(), 6);
}

TEST(SafetensorsHeader, AcceptsScalarsAndEmptyTensors) {
  const std::string header = "{" + entry("empty", "F32", "[0,7]", "[0,0]") + "," +
                             entry("scalar", "F64", "[]", "[0,8]") + "}";
  const auto tensors = read_safetensors_header(safetensors(header, 8), "w");
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].numel(), 0);
  EXPECT_EQ(tensors[1].numel(), 1);
}

TEST(SafetensorsHeader, TruncatedLengthField) {
  EXPECT_EQ(error_of("abc"),
            "w.safetensors: truncated: the file has 3 bytes; expected at least the 8 bytes of the "
            "header length of "
            "a safetensors file");
}

TEST(SafetensorsHeader, AbsurdHeaderLength) {
  EXPECT_EQ(error_of(length_field(~uint64_t{0}) + "{}"),
            "w.safetensors: absurd header length of 18446744073709551615 bytes; expected at most "
            "100000000; is this a "
            "safetensors file?");
}

TEST(SafetensorsHeader, TruncatedHeader) {
  EXPECT_EQ(error_of(length_field(500) + "{}"),
            "w.safetensors: truncated: the header has 500 bytes, the file ends after 2 of them");
  for (const size_t there : {2, 7})  // what is there is a whole object
    EXPECT_THAT(error_of(length_field(8) + ("{}" + std::string(there - 2, ' '))),
                HasSubstr("the file ends after " + std::to_string(there) + " of them"));
  EXPECT_EQ(read_safetensors_header(length_field(8) + "{}      ", "w").size(), 0u);
}

TEST(SafetensorsHeader, HeaderThatIsNotJson) {
  EXPECT_THAT(error_of(safetensors("{\"a\":", 0)),
              HasSubstr("w.safetensors: the header is not JSON: "));
  EXPECT_EQ(error_of(safetensors("[1]", 0)), "w.safetensors: the header is not a JSON object");
}

TEST(SafetensorsHeader, AHeaderThatIsNestedWithoutEnd) {
  EXPECT_EQ(error_of(safetensors(std::string(1'000'000, '['), 0)),
            "w.safetensors: the header is not JSON: nested deeper than 500 levels");
}

TEST(SafetensorsHeader, ManyTensorsTakeTimeByTheirNumber) {
  std::string header = "{\"__metadata__\":{}";
  constexpr size_t kTensors = 200'000;
  for (size_t i = 0; i < kTensors; ++i)
    header += "," + entry("t" + std::to_string(i), "F32", "[0]", "[0,0]");
  EXPECT_EQ(read_safetensors_header(safetensors(header + "}", 0), "w").size(), kTensors)
      << "comparing each name with each other takes minutes";
}

TEST(SafetensorsHeader, FindingsWithoutEndAreCounted) {
  std::string header = "{\"__metadata__\":{}";
  for (int i = 0; i < 1000; ++i)
    header += "," + entry(std::string(10'000, 'n') + std::to_string(i), "F33", "[0]", "[0,0]");
  const std::string error = error_of(safetensors(header + "}", 0));
  EXPECT_THAT(error, HasSubstr("w.safetensors: and 901 more findings"));
  EXPECT_LT(error.size(), 100'000u);
}

TEST(SafetensorsHeader, TruncatedData) {
  EXPECT_EQ(error_of(safetensors("{" + entry("a", "F32", "[4]", "[0,16]") + "}", 12)),
            "w.safetensors: a: data_offsets [0, 16] lie outside of the file's 12 bytes of data; "
            "expected a whole file; "
            "this one is truncated or its header wrong");
}

TEST(SafetensorsHeader, BackwardOffsets) {
  EXPECT_EQ(error_of(safetensors("{" + entry("a", "F32", "[1]", "[8,4]") + "}", 12)),
            "w.safetensors: a: data_offsets [8, 4] lie outside of the file's 12 bytes of data; "
            "expected begin <= end");
}

TEST(SafetensorsHeader, UnknownDtypeOffersTheNearest) {
  EXPECT_THAT(error_of(safetensors("{" + entry("a", "BF17", "[1]", "[0,2]") + "}", 2)),
              AllOf(HasSubstr("a: unknown dtype 'BF17'; expected one of F64, F32, F16, BF16"),
                    HasSubstr("did you mean 'BF16'?")));
}

TEST(SafetensorsHeader, DuplicateTensor) {
  const std::string a = entry("a", "F32", "[1]", "[0,4]");
  EXPECT_EQ(error_of(safetensors("{" + a + "," + a + "}", 4)),
            "w.safetensors: a: duplicate tensor");
}

TEST(SafetensorsHeader, SizeThatContradictsTheShape) {
  const std::string before = entry("_", "F32", "[1]", "[0,4]") + ",";
  EXPECT_EQ(error_of(safetensors("{" + before + entry("a", "F32", "[3]", "[4,12]") + "}", 12)),
            "w.safetensors: a: has 8 bytes; expected 12 bytes for its shape and dtype");
}

TEST(SafetensorsHeader, ShapeWhoseSizeOverflows) {
  EXPECT_EQ(
      error_of(safetensors("{" + entry("a", "F32", "[4294967296,4294967296]", "[0,0]") + "}", 0)),
      "w.safetensors: a: has 0 bytes; expected a shape that fits into memory");
}

TEST(SafetensorsHeader, OverlappingTensors) {
  EXPECT_EQ(error_of(safetensors("{" + entry("a", "F32", "[2]", "[0,8]") + "," +
                                     entry("b", "F32", "[2]", "[4,12]") + "}",
                                 12)),
            "w.safetensors: b: overlaps the tensor before it by 4 bytes");
}

TEST(SafetensorsHeader, GapsAndTrailingBytes) {
  EXPECT_EQ(error_of(safetensors("{" + entry("a", "F32", "[1]", "[4,8]") + "}", 10)),
            "w.safetensors: a: a gap of 4 bytes that belong to no tensor stands before it\n"
            "w.safetensors: 2 bytes at the end belong to no tensor");
}

TEST(SafetensorsHeader, MalformedEntriesAreAllListed) {
  const std::string header =
      "{\"a\":7,\"b\":{\"shape\":[-1],\"data_offsets\":[0]},\"c\":{\"dtype\":\"F32\",\"shape\":[1."
      "5],\"data_offsets\":["
      "0,4]}}";
  EXPECT_EQ(error_of(safetensors(header, 4)),
            "w.safetensors: a: not an object; expected {\"dtype\": ..., \"shape\": [...], "
            "\"data_offsets\": [begin, "
            "end]}\n"
            "w.safetensors: b: no dtype; expected a text such as \"BF16\"\n"
            "w.safetensors: b: no usable shape; expected a list of non-negative integers\n"
            "w.safetensors: b: no usable data_offsets; expected [begin, end]\n"
            "w.safetensors: c: no usable shape; expected a list of non-negative integers");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
