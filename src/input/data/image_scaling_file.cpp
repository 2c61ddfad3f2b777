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

  // {"longest_edge": pixels}.
  int64_t longest_edge(const char* key, int64_t of_class) {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return of_class;
    const Json edge = found->is_object() ? found->value("longest_edge", Json()) : Json();
    constexpr int64_t kMostPixels = 8192;
    if (edge.is_number_integer() && edge >= 1 && edge <= kMostPixels) return edge;
    add(key, *found, "{\"longest_edge\": 1 to " + std::to_string(kMostPixels) + "}");
    return of_class;
  }

  // Tiles of whole squares of patches, not too many.
  void require_squares(const VisionConfig& vision) {
    constexpr int64_t kMostTiles = 16;  // along a side
    if (vision.longest_side > kMostTiles * vision.image_size) {
      add("size", vision.longest_side,
          "at most " + std::to_string(kMostTiles) + " times max_image_size (" +
              std::to_string(vision.image_size) + ")");
    }
    if (vision.grid() >= vision.square && vision.grid() % vision.square == 0) return;
    add("max_image_size", vision.image_size,
        "a side whose patches (of " + std::to_string(vision.patch_size) +
            " pixels) divide into squares of " + std::to_string(vision.square));
  }

  void read_flag(const char* key, bool& flag) {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return;
    if (!found->is_boolean()) return add(key, *found, "true or false");
    flag = *found;
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

// As config.json has it: tiles of the tower's sides.
void require_pinpoints(Processor& processor, const Json& json, const VisionConfig& vision) {
  processor.require("image_grid_pinpoints", pinpoints_of(vision));
  processor.require_size("size", vision.image_size);
  if (json.contains("crop_size")) processor.require_size("crop_size", vision.image_size);
}

// Of Idefics3ImageProcessor, which has these where the file has none.
void read_squares(Processor& processor, VisionConfig& vision) {
  vision.image_size = processor.longest_edge("max_image_size", 364);
  vision.longest_side = processor.longest_edge("size", 4 * 364);
  processor.read_flag("do_image_splitting", vision.cuts);
  processor.require_squares(vision);
}

ImageScaling scaling_of(const Json& json, const std::string& origin, VisionConfig& vision) {
  Processor processor(json, origin);
  processor.require("resample", static_cast<int>(filter_of(vision)));
  for (const char* step : {"do_resize", "do_rescale", "do_normalize", "do_pad"})
    processor.require(step, true);
  processor.require("rescale_factor", 1.0 / 255);
  if (vision.connector == VisionConnector::kSquares) {
    read_squares(processor, vision);
  } else {
    require_pinpoints(processor, json, vision);
  }
  ImageScaling scaling;
  processor.read("image_mean", scaling.mean, false);
  processor.read("image_std", scaling.deviation, true);
  processor.throw_if_any();
  return scaling;
}

// How many positions the processor gives a tile.
void require_features(const Json& processor, const std::string& origin,
                      const VisionConfig& vision) {
  if (vision.connector != VisionConnector::kSquares) return;
  Processor whole(processor, origin);
  whole.require("image_seq_len", vision.tile_features());
  whole.throw_if_any();
}

}  // namespace

std::optional<ImageScaling> read_image_scaling(const fs::path& directory, VisionConfig& vision) {
  const fs::path own = directory / "preprocessor_config.json";
  const fs::path whole = directory / "processor_config.json";
  const Json processor = stands(whole) ? read_json_file(whole.string()) : Json::object();
  std::optional<ImageScaling> scaling;
  if (stands(own)) {
    scaling = scaling_of(read_json_file(own.string()), own.string(), vision);
  } else if (const auto found = processor.find("image_processor");
             found != processor.end() && found->is_object()) {
    scaling = scaling_of(*found, whole.string(), vision);
  }
  require_features(processor, whole.string(), vision);
  return scaling;
}

}  // namespace sftbench
