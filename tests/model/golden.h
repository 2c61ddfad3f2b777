// The golden files of tests/reference/models.py, families.py and drawn.py, as tests of the model
// module read them.
#pragma once

#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/drawn_weights.h"
#include "sftbench/base/json.h"
#include "sftbench/base/torch.h"
#include "sftbench/checkpoint/checkpoint.h"
#include "sftbench/model/causal_lm.h"
#include "test_device.h"

namespace sftbench {

inline std::filesystem::path case_folder(const std::string& name) {
  return std::filesystem::path(SFTBENCH_TEST_DATA) / "models" / name;
}

// The cases whose golden values are in a file of this name, sorted.
inline std::vector<std::string> cases_with(const std::string& file) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(case_folder("")))
    if (exists(entry.path() / file)) names.insert(entry.path().filename().string());
  return {names.begin(), names.end()};
}

// Those of tests/reference/models.py and families.py, and those of drawn.py.
inline std::vector<std::string> all_cases() {
  return cases_with("golden.safetensors");
}
inline std::vector<std::string> drawn_cases() {
  return cases_with("golden.json");
}

using Tensors = std::map<std::string, torch::Tensor>;

inline Tensors read_tensors(const std::filesystem::path& path) {
  const std::map<StoredDtype, torch::Dtype> dtypes = {{StoredDtype::kF32, torch::kFloat32},
                                                      {StoredDtype::kBF16, torch::kBFloat16},
                                                      {StoredDtype::kI64, torch::kInt64},
                                                      {StoredDtype::kU8, torch::kUInt8}};
  const MappedFile file(path);
  Tensors tensors;
  for (const StoredTensor& stored : read_safetensors_header(file.text(), path.string())) {
    torch::Tensor tensor = torch::empty(stored.shape, dtypes.at(stored.dtype));
    std::memcpy(tensor.data_ptr(), file.data() + stored.offset_bytes, stored.size_bytes);
    tensors[stored.name] = tensor.to(test_device());
  }
  return tensors;
}

// The golden values are those of evaluation.
inline Json without_dropout(Json config) {
  for (const char* key : {"attention_dropout", "attn_pdrop", "embd_pdrop", "hidden_dropout",
                          "resid_pdrop", "embedding_dropout", "residual_dropout"}) {
    if (config.contains(key)) config[key] = 0.0;
  }
  return config;
}

// Of a model that reads images; none for others.
inline ImageRows golden_images(const Json& config, const Tensors& expected) {
  ImageRows images;
  const auto sizes = expected.find("image_sizes");
  if (sizes == expected.end()) return images;
  std::vector<torch::Tensor> tiles;
  for (int64_t i = 0; i < sizes->second.size(0); ++i) {
    tiles.push_back(expected.at("tiles." + std::to_string(i)));
    images.sizes.push_back(
        {sizes->second[i][0].item<int64_t>(), sizes->second[i][1].item<int64_t>()});
  }
  images.pixels = torch::cat(tiles);
  images.token = config.at("image_token_index");
  return images;
}

// One case: the checkpoint as a model, and what Hugging Face computed with it.
struct Golden {
  explicit Golden(const std::string& name, torch::Dtype dtype = torch::kFloat32,
                  const ops::KernelChoice& kernels = {})
      : folder(case_folder(name)),
        config(without_dropout(read_json_file((folder / "config.json").string()))),
        model(make_causal_lm(config, dtype, test_device(), kernels)) {
    if (exists(folder / "golden.json")) {
      draw_weights(*model);
      drawn = read_json_file((folder / "golden.json").string());
      for (const char* rows : {"input_ids", "attention_mask", "labels"})
        expected[rows] = matrix_of(drawn.at(rows));
      return;
    }
    expected = read_tensors(folder / "golden.safetensors");
    load_weights(*model, folder.string());
  }

  // Rows of whole numbers.
  static torch::Tensor matrix_of(const Json& rows) {
    std::vector<torch::Tensor> tensors;
    for (const Json& row : rows)
      tensors.push_back(torch::tensor(row.get<std::vector<int64_t>>(), torch::kInt64));
    return torch::stack(tensors).to(test_device());
  }

  const torch::Tensor& input_ids() const { return expected.at("input_ids"); }
  TokenRows rows() const {
    return {input_ids(),
            {},
            expected.at("attention_mask"),
            drawn.contains("tiles") ? drawn_images() : golden_images(config, expected)};
  }
  const torch::Tensor& labels() const { return expected.at("labels"); }

  // Of a case of vision_models.py.
  ImageRows drawn_images() const {
    const int64_t side = drawn.at("side"), tiles = drawn.at("tiles");
    ImageRows images;
    images.pixels = (drawn_values("pixels", tiles * 3 * side * side) * 2)
                        .view({tiles, 3, side, side})
                        .to(test_device(), torch::kFloat32);
    images.token = config.at("image_token_id");
    return images;
  }

  // At real positions: [N, V].
  torch::Tensor logits() { return at_real_positions(model->logits(rows())); }
  torch::Tensor expected_logits(const std::string& name) const {
    return at_real_positions(expected.at(name));
  }

  // The mean loss, as the golden file has it.
  torch::Tensor loss(LayerRunner& runner) {
    const auto predicted = (labels().slice(1, 1) != -100).sum().item<double>();
    return model->loss(rows(), labels(), predicted, runner);
  }

  // Hugging Face hides padding from padded queries, too; causality alone hides it from real ones.
  torch::Tensor at_real_positions(const torch::Tensor& values) const {
    return values.flatten(0, 1).index_select(
        0, expected.at("attention_mask").flatten().nonzero().squeeze(1));
  }

  std::filesystem::path folder;
  Json config;
  Tensors expected;
  Json drawn;  // of a case of drawn.py, which holds digests of logits and gradients
  std::unique_ptr<CausalLm> model;
};

inline double max_difference(const torch::Tensor& a, const torch::Tensor& b) {
  return (a.to(torch::kFloat64) - b.to(torch::kFloat64)).abs().max().item<double>();
}

// Root mean square of the difference, relative to that of the expectation.
inline double rms_difference(const torch::Tensor& found, const torch::Tensor& expected) {
  const torch::Tensor reference = expected.to(torch::kFloat64);
  return ((found.to(torch::kFloat64) - reference).norm() / reference.norm()).item<double>();
}

// Largest difference, relative to the expectation's largest value.
inline double relative_difference(const torch::Tensor& found, const torch::Tensor& expected) {
  const auto largest = expected.to(torch::kFloat64).abs().max().item<double>();
  return max_difference(found, expected) / std::max(largest, 1e-12);
}

}  // namespace sftbench
