// Pictures of the next step, decoded while the step before it trains.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <future>
#include <memory>
#include <vector>

#include "sftbench/data/vision_dataset.h"

namespace sftbench {

// The images of a micro-batch, entry by entry.
struct BatchImages {
  torch::Tensor tiles;  // [tiles, 3, side, side] uint8; undefined: there are none
  std::vector<PixelSize> sizes;
};

class ImagesAhead {
 public:
  explicit ImagesAhead(std::shared_ptr<const VisionDataset> dataset)
      : dataset_(std::move(dataset)) {}

  // Begins to decode the pictures of these entries, on a thread of its own.
  void begin(std::vector<std::vector<int64_t>> micro_batches);
  bool has_begun() const { return images_.valid(); }

  // Those that begin() was asked for, one for each micro-batch. InputError that names the entry of
  // a picture that does not decode. REQUIRES: has_begun().
  std::vector<BatchImages> take() { return images_.get(); }

 private:
  std::shared_ptr<const VisionDataset> dataset_;
  std::future<std::vector<BatchImages>> images_;
};

}  // namespace sftbench
