// Training on images against Hugging Face: pixels as LlavaNextImageProcessorPil has them
// (tests/reference/vision_models.py), whole runs as Trainer's (tests/reference/vision_training.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "engine/peft_adapter.h"
#include "engine/prepare_data.h"
#include "engine/train_steps.h"
#include "engine/training_fixture.h"
#include "model/golden.h"
#include "sftbench/base/error.h"
#include "sftbench/base/sha256.h"
#include "sftbench/base/torch.h"
#include "sftbench/data/image_tiles.h"
#include "sftbench/data/parquet_library.h"
#include "sftbench/families/model_config.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::AllOf;
using ::testing::HasSubstr;

// --- pixels --------------------------------------------------------------------------------------

Image image_of(const torch::Tensor& pixels) {
  const auto* first = pixels.data_ptr<uint8_t>();
  return {{pixels.size(0), pixels.size(1)}, {first, first + pixels.numel()}};
}

torch::Tensor scaled(std::vector<uint8_t> tiles, const VisionConfig& vision) {
  const int64_t side = vision.image_size;
  const ImageScaling scaling = default_scaling(vision);
  torch::Tensor values =
      torch::from_blob(tiles.data(), {static_cast<int64_t>(tiles.size())}, torch::kUInt8)
          .to(torch::kFloat32)
          .view({-1, 3, side, side}) /
      255;
  for (int64_t color = 0; color < 3; ++color)
    values.select(1, color).sub_(scaling.mean[color]).div_(scaling.deviation[color]);
  return values;
}

class ImageTiles : public ::testing::TestWithParam<const char*> {};

TEST_P(ImageTiles, AreThoseOfTheProcessor) {
  const std::filesystem::path folder = case_folder(GetParam());
  const Json config = read_json_file((folder / "config.json").string());
  const VisionConfig vision = *parse_model_config(config).vision;
  const Tensors expected = read_tensors(folder / "golden.safetensors");
  const int64_t images = expected.at("image_sizes").size(0);
  for (int64_t i = 0; i < images; ++i) {
    const std::string number = std::to_string(i);
    const torch::Tensor& theirs = expected.at("tiles." + number);
    const Image image = image_of(expected.at("images." + number));
    const torch::Tensor ours = scaled(tiles_of(image, vision), vision);
    ASSERT_EQ(ours.sizes(), theirs.sizes()) << number;
    EXPECT_LE(max_difference(ours, theirs), 1e-6) << number;
  }
  EXPECT_GE(images, 2);
}

INSTANTIATE_TEST_SUITE_P(Cases, ImageTiles,
                         ::testing::Values("llava_next_clip", "llava_next_siglip",
                                           "llava_next_odd_sizes"));

// Pictures by the rule of drawn.py, as Idefics3ImageProcessorPil and SmolVLMImageProcessorPil cut
// them (anyres.py).
TEST(SquareTiles, AreThoseOfTheProcessor) {
  size_t compared = 0;
  for (const Json& expected : read_json_file(SFTBENCH_TEST_DATA "/data/squares.json")) {
    VisionConfig vision;
    vision.connector = VisionConnector::kSquares;
    vision.image_size = expected.at("max_image_size");
    vision.longest_side = expected.at("size");
    vision.cuts = expected.at("cuts");
    for (const Json& picture : expected.at("pictures")) {
      const PixelSize size = {picture[0], picture[1]};
      const torch::Tensor drawn = drawn_values("picture", size.height * size.width * 3);
      const torch::Tensor pixels =
          ((drawn + 0.5) * 256).to(torch::kUInt8).view({size.height, size.width, 3});
      const std::vector<uint8_t> tiles = tiles_of(image_of(pixels), vision);
      EXPECT_EQ(tile_grid(vision, size).rows, picture[2].get<int64_t>());
      EXPECT_EQ(sha256(std::string(tiles.begin(), tiles.end())), picture[4])
          << vision.image_size << ": " << size.height << " x " << size.width;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 32U);
}

// --- runs ----------------------------------------------------------------------------------------

TrainingJob with_images(TrainingJob job, const Json& golden) {
  job.model.tokenizer_directory = training_folder() + "/" + golden.at("model").get<std::string>();
  job.data.path = training_folder() + "/vision.parquet";
  job.data.dataset_id = "vision-of-the-test";
  job.data.text_field = golden.at("column");
  job.data.image_field = "images";
  job.data.padding = Padding::kLongest;
  return job;
}

void expect_steps(const Recorder& run, const Json& golden, double loss, double norm) {
  ASSERT_EQ(run.steps.size(), golden["steps"].size());
  double worst_loss = 0, worst_norm = 0;
  for (size_t i = 0; i < run.steps.size(); ++i) {
    const Json& expected = golden["steps"][i];
    const double theirs = expected["grad_norm"];
    worst_loss = std::max(worst_loss, std::abs(run.steps[i].loss - expected["loss"].get<double>()));
    worst_norm = std::max(worst_norm, std::abs(run.steps[i].grad_norm / theirs - 1));
    EXPECT_NEAR(run.steps[i].learning_rate, expected["learning_rate"].get<double>(), 1e-15);
  }
  EXPECT_LE(worst_loss, loss);
  EXPECT_LE(worst_norm, norm);
  std::cout << "largest difference: loss " << worst_loss << ", grad norm " << worst_norm
            << " relative\n";
}

class VisionTraining : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      load_parquet_library();
    } catch (const RunError& error) {
      GTEST_SKIP() << error.what();
    }
    golden_ = golden_run(GetParam());
    job_ = with_images(job_of(golden_), golden_);
  }

  void expect_run(const Recorder& run, double loss, double norm) const {
    expect_steps(run, golden_, loss, norm);
  }

  Json golden_;
  TrainingJob job_;
};

TEST_P(VisionTraining, ReproducesTrainerStepByStep) {
  const Recorder run = train(job_);
  expect_run(run, 1e-4, 1e-3);
}

TEST_P(VisionTraining, ReentrantCheckpointingGivesTheSameNumbers) {
  job_.activations.use_reentrant = true;
  expect_run(train(job_), 1e-4, 1e-3);
}

TEST_P(VisionTraining, WithoutCheckpointingGivesTheSameNumbers) {
  job_.activations.gradient_checkpointing = false;
  expect_run(train(job_), 1e-4, 1e-3);
}

TEST_P(VisionTraining, AdaptersOfTheTowerTrainWithThoseOfTheText) {
  job_.tuning = TuningMethod::kLora;
  job_.lora.target_modules = {"q_proj", "v_proj"};
  const Recorder run = train(job_);
  ASSERT_EQ(run.steps.size(), 10U);
  const ModelConfig config = parse_model_config(job_.model.hf_config);
  const VisionConfig& vision = *config.vision;
  // As peft counts them: also those of a layer of the tower that nothing is computed of.
  const int64_t tower = vision.layers * 2 * job_.lora.rank * 2 * vision.hidden_size;
  const AttentionConfig& attention = config.attention;
  const int64_t text =
      config.num_hidden_layers * job_.lora.rank *
      (2 * config.hidden_size + attention.query_width() + attention.key_value_width());
  EXPECT_EQ(run.begin.parameters_trainable, tower + text);
  for (const StepEvent& step : run.steps) EXPECT_TRUE(std::isfinite(step.loss));
  EXPECT_LT(run.steps.back().loss, run.steps.front().loss + 1);
}

TEST_P(VisionTraining, RefusesWhatItCannotDo) {
  const auto error_of = [](const TrainingJob& job) {
    try {
      train(job);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  TrainingJob job = job_;
  job.data.padding = Padding::kPacked;
  EXPECT_THAT(error_of(job), HasSubstr("padding packed: entries with images stand one in a row"));
  job = job_;
  job.data.image_field = "pictures";
  EXPECT_THAT(error_of(job), AllOf(HasSubstr("pictures"), HasSubstr("no such column"),
                                   HasSubstr("messages, text, images")));
  job = job_;
  job.data.text_field = "mesages";
  EXPECT_THAT(error_of(job), HasSubstr("did you mean 'messages'"));
  job = job_;
  job.data.image_field = "text";
  EXPECT_THAT(error_of(job), HasSubstr("expected pictures {bytes, path}"));
  job = job_;
  job.model.hf_config = read_json_file(training_folder() + "/llama/config.json");
  job.model.weights_directory.clear();
  job.model.tokenizer_directory = training_folder() + "/tokenizer";
  EXPECT_THAT(error_of(job), HasSubstr("reads no images"));
}

// The first entries. Those of LlavaNextProcessor are held in tests/data.
TEST(VisionIds, AreThoseOfIdefics3AndSmolVlmProcessors) {
  try {
    load_parquet_library();
  } catch (const RunError& error) {
    GTEST_SKIP() << error.what();
  }
  for (const char* name : {"idefics3-float32", "smolvlm-float32"}) {
    const Json golden = golden_run(name);
    const TrainingJob job = with_images(job_of(golden), golden);
    WorkCount work;
    const PreparedData data = prepare_data(job, prepare_tokenizer(job.model), 1, 0, work);
    ASSERT_EQ(golden["ids"].size(), 4U);
    for (size_t i = 0; i < golden["ids"].size(); ++i) {
      std::vector<int32_t> expected;
      for (const Json& run : golden["ids"][i])
        expected.insert(expected.end(), run[1].get<size_t>(), run[0].get<int32_t>());
      EXPECT_EQ(data.training.dataset->entry(static_cast<int64_t>(i)).input_ids, expected)
          << name << " " << i;
    }
  }
}

// peft's adapters of q_proj and v_proj, the tower's among them, and its virtual tokens in front of
// rows with images.
TEST(VisionAdapters, ReproduceTrainerOverPeftStepByStep) {
  try {
    load_parquet_library();
  } catch (const RunError& error) {
    GTEST_SKIP() << error.what();
  }
  for (const std::string name :
       {"llava_siglip-lora_qv", "llava_siglip-prompt", "smolvlm-lora_qv"}) {
    SCOPED_TRACE(name);
    const Json golden = read_json_file(adapter_folder(name) + "/golden.json");
    TrainingJob job = with_images(adapter_job(name), golden);
    for (const bool checkpointing : {true, false}) {
      job.activations.gradient_checkpointing = checkpointing;
      TrainingRun run = prepare_run(job, alone());
      if (!is_prompt(name)) load_adapter(adapter_folder(name) + "/initial", run, alone());
      Recorder recorder;
      train_steps(run, alone(), {&recorder}, [] { return false; });
      expect_steps(recorder, golden, 1e-4, 1e-3);
      TrainingRun theirs = prepare_run(job, alone());
      load_adapter(adapter_folder(name) + "/final", theirs, alone());
      const std::vector<NamedParameter> expected = theirs.model->parameters();
      const std::vector<NamedParameter> found = run.model->parameters();
      for (size_t i = 0; i < found.size(); ++i) {
        if (!found[i].tensor->requires_grad()) continue;
        const double distance = (*found[i].tensor - *expected[i].tensor).norm().item<double>();
        EXPECT_LE(distance, 2e-3 * expected[i].tensor->norm().item<double>()) << found[i].name;
      }
    }
  }
}

TEST_P(VisionTraining, TrainsOnTextsAlone) {
  job_.data.path = training_folder() + "/dataset.jsonl";
  job_.data.image_field.clear();
  job_.data.text_field = "output";
  job_.batches.max_steps = 2;
  const Recorder run = train(job_);
  ASSERT_EQ(run.steps.size(), 2U);
  EXPECT_TRUE(std::isfinite(run.steps[1].loss));
}

INSTANTIATE_TEST_SUITE_P(
    Models, VisionTraining,
    ::testing::Values("idefics3-float32", "llava_clip-float32", "llava_siglip-float32",
                      "smolvlm-float32"),
    [](const auto& tested) {
      return std::string(tested.param).substr(0, std::string(tested.param).find('-'));
    });

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
