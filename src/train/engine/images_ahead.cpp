#include "engine/images_ahead.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

using Tiles = std::shared_ptr<const std::vector<uint8_t>>;

// Equal pictures are decoded once in a step.
class Decoder {
 public:
  explicit Decoder(const VisionDataset& dataset) : dataset_(dataset) {}

  Tiles tiles(int64_t entry, const VisionDataset::Picture& picture) {
    Tiles& known = known_[picture.bytes.get()];
    if (!known) {
      known = std::make_shared<const std::vector<uint8_t>>(dataset_.tiles(entry, picture));
    }
    return known;
  }

 private:
  const VisionDataset& dataset_;
  std::map<const std::string*, Tiles> known_;
};

BatchImages images_of(const std::vector<int64_t>& entries, const VisionDataset& dataset,
                      Decoder& decoder) {
  BatchImages images;
  std::vector<Tiles> tiles;
  size_t bytes = 0;
  for (const int64_t entry : entries) {
    for (const VisionDataset::Picture& picture : dataset.pictures(entry)) {
      tiles.push_back(decoder.tiles(entry, picture));
      bytes += tiles.back()->size();
      images.sizes.push_back(picture.size);
    }
  }
  if (tiles.empty()) return images;
  const int64_t side = dataset.vision().image_size, colors = dataset.vision().channels;
  images.tiles = torch::empty(
      {static_cast<int64_t>(bytes) / (colors * side * side), colors, side, side}, torch::kUInt8);
  auto* target = images.tiles.data_ptr<uint8_t>();
  for (const Tiles& part : tiles) target = std::copy(part->begin(), part->end(), target);
  return images;
}

}  // namespace

void ImagesAhead::begin(std::vector<std::vector<int64_t>> micro_batches) {
  images_ = std::async(std::launch::async,
                       [dataset = dataset_, micro_batches = std::move(micro_batches)] {
                         Decoder decoder(*dataset);
                         std::vector<BatchImages> images;
                         for (const std::vector<int64_t>& entries : micro_batches)
                           images.push_back(images_of(entries, *dataset, decoder));
                         return images;
                       });
}

}  // namespace sftbench
