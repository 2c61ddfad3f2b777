#include "sftbench/data/image_scaling_file.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

bool stands(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

class Processor {
 public:
  Processor(const Json& json, std::string origin) : json_(json), origin_(std::move(origin)) {}

  // Absent or null is what its class has, which is `expected`.
  void require(const char* key, const Json& expected) {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null() || *found == expected) return;
    add(key, *found, json_text(expected));
  }

  void require_size(const char* key, int64_t side) {
    const auto found = json_.find(key);
    const Json square = {{"height", side}, {"width", side}}, shortest = {{"shortest_edge", side}};
    if (found == json_.end()) return add(key, nullptr, json_text(square));
    if (found->is_number_integer() && *found == side) return;
    if (*found != square && *found != shortest) add(key, *found, json_text(square));
  }

  void read(const char* key, float* colors, bool above_zero) {
    const auto found = json_.find(key);
    const bool three = found != json_.end() && found->is_array() && found->size() == 3;
    for (size_t i = 0; three && i < 3; ++i) {
      const Json& value = (*found)[i];
      const double number = value.is_number() ? value.get<double>() : NAN;
      if (!std::isfinite(number) || (above_zero && number <= 0)) return add(key, *found, kColors);
      colors[i] = static_cast<float>(number);
    }
    if (!three) add(key, found == json_.end() ? Json() : *found, kColors);
  }

  void throw_if_any() const {
    if (!findings_.empty()) throw InputError(findings_);
  }

 private:
  static constexpr const char* kColors = "three numbers, one for each color";

  void add(const char* key, const Json& found, std::string expected) {
    Diagnostic finding;
    finding.file = origin_;
    finding.key = key;
    finding.message = "found " + json_text(found).substr(0, 80);
    finding.expected = std::move(expected);
    findings_.push_back(std::move(finding));
  }

  const Json& json_;
  std::string origin_;
  std::vector<Diagnostic> findings_;
};

Json pinpoints_of(const VisionConfig& vision) {
  Json pinpoints = Json::array();
  for (const PixelSize& size : vision.pinpoints) pinpoints.push_back({size.height, size.width});
  return pinpoints;
}

ImageScaling scaling_of(const Json& json, const std::string& origin, const VisionConfig& vision) {
  Processor processor(json, origin);
  constexpr int kBicubic = 3;  // Pillow's number
  processor.require("resample", kBicubic);
  for (const char* step : {"do_resize", "do_rescale", "do_normalize", "do_pad"})
    processor.require(step, true);
  processor.require("rescale_factor", 1.0 / 255);
  processor.require("image_grid_pinpoints", pinpoints_of(vision));
  processor.require_size("size", vision.image_size);
  if (json.contains("crop_size")) processor.require_size("crop_size", vision.image_size);
  ImageScaling scaling;
  processor.read("image_mean", scaling.mean, false);
  processor.read("image_std", scaling.deviation, true);
  processor.throw_if_any();
  return scaling;
}

}  // namespace

std::optional<ImageScaling> read_image_scaling(const fs::path& directory,
                                               const VisionConfig& vision) {
  const fs::path own = directory / "preprocessor_config.json";
  if (stands(own)) return scaling_of(read_json_file(own.string()), own.string(), vision);
  const fs::path whole = directory / "processor_config.json";
  if (!stands(whole)) return std::nullopt;
  const Json json = read_json_file(whole.string());
  const auto found = json.find("image_processor");
  if (found == json.end() || !found->is_object()) return std::nullopt;
  return scaling_of(*found, whole.string(), vision);
}

}  // namespace sftbench
