// Recommendations: they keep their limits, say what is nearest when nothing does, and count what a
// dataset's lengths mean.
#include "sftbench/advise/recommend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <set>

#include "advise/option_space.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/variants/sharding_strategy.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

const std::string kA100 = "NVIDIA-A100-SXM4-80GB", kH100 = "NVIDIA-H100-80GB-HBM3";

PriceBook book() {
  PriceBook book;
  book.currency = "USD";
  for (const auto& [gpu, price] : {std::pair(kA100, 5.0), std::pair(kH100, 12.0)}) {
    Price& row = book.prices[gpu];
    row.gpu = gpu;
    row.per_hour = price;
    book.offers.push_back(row);
  }
  return book;
}

Question question(const std::string& model, const std::string& experiment) {
  Question question;
  question.experiment = Catalog::shipped().experiment(experiment);
  question.model = model;
  question.workload.entries = 10000;
  question.workload.model_max_length = 2048;
  question.gpus = {kA100, kH100};
  return question;
}

Recommendation answer(const Question& question) {
  const MachineOverrides overrides;
  Oracle oracle({}, {}, overrides, Catalog::shipped());
  const Uncertainty uncertainty(ResidualTable::shipped());
  return recommend(question, book(), oracle, uncertainty);
}

std::string error_of(const Question& question) {
  try {
    answer(question);
  } catch (const InputError& error) {
    return error.what();
  } catch (const RunError& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no error";
}

const std::string kLora = "finetune_lora_benchmark-v1.0.0";
const std::string kFull = "finetune_full_benchmark-v1.0.0";

TEST(RecommendTest, TheCheapestIsNoFasterAndTheFastestNoCheaper) {
  const Recommendation got = answer(question("llama3.1-8b", kLora));
  ASSERT_TRUE(got.cheapest && got.fastest);
  EXPECT_LE(*got.cheapest->cost, *got.fastest->cost);
  EXPECT_GE(got.cheapest->hours, got.fastest->hours);
  EXPECT_EQ(got.cheapest->fit, Fit::kFits);
  for (size_t i = 1; i < got.front.size(); ++i) {
    EXPECT_LT(got.front[i].hours, got.front[i - 1].hours);
    EXPECT_GE(*got.front[i].cost, *got.front[i - 1].cost);
  }
  EXPECT_LE(got.alternatives.size(), 3u);
  int64_t out = 0;
  for (const RuledOut& reason : got.ruled_out) out += reason.options;
  EXPECT_LT(out, got.considered);
}

TEST(RecommendTest, EveryStepTrainsTheEntriesThatAreAskedFor) {
  const Recommendation got = answer(question("llama3.1-8b", kLora));
  for (const Option& option : got.front) {
    const int64_t groups = option.gpus / option.context_ranks;
    EXPECT_EQ(groups * option.batch_per_gpu * option.accumulation, 32);
    EXPECT_EQ(option.inputs["batch_size"], groups * option.batch_per_gpu);
  }
}

TEST(RecommendTest, ADeadlineCostsMoneyAndABudgetTime) {
  Question asked = question("llama3.1-8b", kLora);
  const Recommendation free = answer(asked);
  asked.deadline_s = free.cheapest->hours * 3600 / 2;
  const Recommendation hurried = answer(asked);
  EXPECT_LE(hurried.cheapest->hours, free.cheapest->hours / 2);
  EXPECT_GE(*hurried.cheapest->cost, *free.cheapest->cost);
  asked.deadline_s.reset();
  asked.budget = (*free.cheapest->cost + *free.fastest->cost) / 2;
  EXPECT_LE(*answer(asked).fastest->cost, *asked.budget);
}

TEST(RecommendTest, TriesShardsAndWholeCopiesUnlessOneIsGiven) {
  Question asked = question("llama3.1-8b", kLora);
  asked.gpus = {kH100};
  asked.by_this_program = false;  // which also divides the optimizer's state alone
  std::vector<std::string> backends;
  for (const Option& option : answer(asked).front) {
    EXPECT_EQ(option.backend.empty(), option.gpus == 1);
    if (option.gpus == 1) continue;
    EXPECT_EQ(option.inputs["distributed_backend"], option.backend);
    backends.push_back(option.backend);
  }
  EXPECT_THAT(backends, ::testing::Contains("DDP")) << "all of it fits on each";
  asked.given = {{"distributed_backend", "FSDP"}, {"gradient_checkpointing", true}};
  for (const Option& option : answer(asked).front) {
    EXPECT_EQ(option.inputs["distributed_backend"], "FSDP");
    EXPECT_TRUE(option.checkpointing);
  }
}

// The least hours of all that fits, asked one by one, without what the search takes for granted.
double least_hours(const Question& asked) {
  const MachineOverrides overrides;
  Oracle oracle({}, {}, overrides, Catalog::shipped());
  std::vector<Json> strategies = {{{"distributed_backend", "DDP"}}};
  for (const StrategyRow& row : kStrategies) {
    if (row.kind != Strategy::kDdp)
      strategies.push_back({{"distributed_backend", "FSDP"}, {"fsdp_sharding_strategy", row.name}});
  }
  const double steps =
      std::ceil(static_cast<double>(asked.workload.entries) / static_cast<double>(asked.batch));
  double least = 1e300;
  const auto ask = [&](int64_t gpus, int64_t among, int64_t batch, Json inputs) {
    const int64_t rows = gpus / among * batch;
    if (asked.batch % rows != 0) return;
    inputs.update({{"model_name", asked.model},
                   {"gpu_model", asked.gpus[0]},
                   {"number_gpus", gpus},
                   {"number_nodes", std::max<int64_t>(1, gpus / 8)},
                   {"model_max_length", asked.workload.model_max_length},
                   {"batch_size", rows},
                   {"gradient_accumulation_steps", asked.batch / rows},
                   {"context_parallel", among}});
    try {
      const Prediction one = oracle.predict(request_of(*asked.experiment, inputs));
      if (one.fit == Fit::kFits) least = std::min(least, steps * one.cost.step_s / 3600);
    } catch (const RunError&) {  // what rules forbid
    }
  };
  for (int64_t gpus = 1; gpus <= asked.most_gpus; gpus *= 2) {
    for (int64_t among = 1; among <= gpus; among *= 2) {
      for (int64_t batch = 1; batch <= asked.batch; ++batch) {
        for (Json inputs : gpus == 1 ? std::vector<Json>{Json::object()} : strategies) {
          for (const bool checkpointing : {true, false}) {
            for (const int64_t tiles : {1, 4}) {
              inputs.update({{"gradient_checkpointing", checkpointing}, {"mlp_tiles", tiles}});
              ask(gpus, among, batch, inputs);
            }
          }
        }
      }
    }
  }
  return least;
}

TEST(RecommendTest, TheFastestIsTheFastestOfAllThatFit) {
  struct Case {
    const char *model, *gpu;
    std::string experiment;
    int64_t gpus, length, batch;
  };
  for (const Case& one : {Case{"llama3.1-8b", "NVIDIA-L4", kLora, 1, 2048, 32},
                          Case{"llama3.1-8b", "L40S", kFull, 8, 2048, 32},
                          Case{"llama3.1-8b", "NVIDIA-A100-SXM4-80GB", kFull, 16, 2048, 48},
                          Case{"llama3.1-70b", "NVIDIA-A100-SXM4-80GB", kLora, 8, 2048, 32},
                          Case{"smollm2-135m", "NVIDIA-GeForce-RTX-4090", kFull, 1, 2048, 32},
                          Case{"llama3.2-1b", "NVIDIA-GeForce-RTX-3090", kFull, 4, 1024, 24},
                          Case{"llama3.1-8b", "NVIDIA-A100-SXM4-80GB", kFull, 8, 32768, 4},
                          Case{"llama3.1-8b", "NVIDIA-A100-SXM4-80GB", kLora, 8, 32768, 8}}) {
    Question asked = question(one.model, one.experiment);
    asked.gpus = {one.gpu};
    asked.most_gpus = one.gpus;
    asked.workload.model_max_length = one.length;
    asked.batch = one.batch;
    EXPECT_DOUBLE_EQ(answer(asked).fastest->hours, least_hours(asked)) << one.model << one.gpu;
  }
}

TEST(RecommendTest, WhatOtherProgramsDoNotHaveIsNotTriedForThem) {
  Question asked = question("llama3.1-8b", kFull);
  asked.gpus = {kH100};
  asked.deadline_s = answer(asked).fastest->hours * 3600;
  EXPECT_EQ(answer(asked).fastest->sharding, "SHARD_OPTIM");
  asked.deadline_s.reset();
  asked.by_this_program = false;
  const Option fastest = *answer(asked).fastest;
  EXPECT_EQ(fastest.sharding, "SHARD_GRAD_OP");
  EXPECT_EQ(fastest.inputs["fsdp_sharding_strategy"], "SHARD_GRAD_OP");
}

TEST(RecommendTest, TilesAreTriedWhereTheyCostLessThanCheckpointing) {
  Question asked = question("llama3.1-8b", kLora);
  asked.gpus = {"NVIDIA-L4"};
  asked.most_gpus = 1;
  const Recommendation got = answer(asked);
  EXPECT_EQ(got.fastest->inputs["mlp_tiles"], 4);
  EXPECT_FALSE(got.fastest->checkpointing);
  EXPECT_THAT(got.reasons, ::testing::Contains(HasSubstr("without mlp_tiles 4 it needs ")));
  asked.given = {{"mlp_tiles", 1}};
  EXPECT_GT(answer(asked).fastest->hours, got.fastest->hours);
}

TEST(RecommendTest, WhatOneHasIsRankedByTimeWithoutAPrice) {
  Question asked = question("llama3.1-8b", kLora);
  asked.gpus = {kA100};
  asked.most_gpus = 2;
  asked.owned = true;
  const Recommendation got = answer(asked);
  EXPECT_FALSE(got.cheapest);
  EXPECT_FALSE(got.fastest->rent || got.fastest->cost);
  EXPECT_EQ(got.fastest->gpus, 2);
  ASSERT_EQ(got.alternatives.size(), 3u) << "other strategies, or fewer GPUs";
  double before = got.fastest->hours;
  for (const Option& option : got.alternatives) {
    EXPECT_GE(option.hours, before);
    before = option.hours;
  }
}

TEST(RecommendTest, AGpuWithoutAPriceIsNamedBesideOthers) {
  Question asked = question("llama3.1-8b", kLora);
  asked.gpus = {kA100, "L40S"};
  const Recommendation got = answer(asked);
  ASSERT_EQ(got.unpriced.size(), 1u);
  EXPECT_EQ(got.unpriced[0].gpu, "L40S");
  EXPECT_EQ(got.unpriced[0].gpus, 8) << "its fastest";
}

TEST(RecommendTest, AsManyGpusAsThereAreAreTried) {
  Question asked = question("llama3.2-1b", kLora);
  asked.gpus = {kA100};
  asked.most_gpus = 3;
  asked.batch = 24;
  EXPECT_EQ(answer(asked).fastest->gpus, 3);
  asked.batch = 32;
  const Recommendation got = answer(asked);
  EXPECT_EQ(got.fastest->gpus, 2);
  EXPECT_EQ(got.ruled_out[0].reason, "a step of 32 is not divided among 3 GPUs (--batch)");
}

TEST(RecommendTest, TheHostIsAskedOnlyWhereNothingFitsWithoutIt) {
  Question asked = question("llama3.2-3b", kFull);
  asked.gpus = {"NVIDIA-GeForce-RTX-4090"};
  asked.most_gpus = 1;
  const Recommendation got = answer(asked);
  EXPECT_EQ(got.fastest->switches, Json({{"offload_optimizer", true}}));
  EXPECT_EQ(got.fastest->inputs["offload_optimizer"], true);
  EXPECT_THAT(got.reasons.front(), HasSubstr("nothing fits without offload_optimizer: the host "));
  asked.model = "llama3.2-1b";
  EXPECT_TRUE(answer(asked).fastest->switches.empty());
  asked.model = "llama3.2-3b";
  asked.given = {{"offload_optimizer", false}};
  EXPECT_THAT(error_of(asked), HasSubstr("no configuration fits"));
}

// Short entries: two rows hold what a step of 32 does.
TEST(RecommendTest, PackedRowsHoldAboutTheEntriesOfAStep) {
  Question asked = question("llama3.2-1b", kLora);
  asked.workload.entries = 1600;
  for (int64_t i = 0; i < asked.workload.entries; ++i)
    asked.workload.lengths.push_back(i % 2 == 0 ? 28 : 228);
  Workload packed = asked.workload;
  packed.padding = Padding::kPacked;
  packed.entries = 100;
  packed.entries_per_row = 16;
  packed.lengths.assign(100, 2048);
  asked.packed = packed;
  const Recommendation got = answer(asked);
  EXPECT_EQ(got.cheapest->padding, Padding::kPacked);
  EXPECT_EQ(got.cheapest->rows_per_step, 2);
  for (const Option& option : got.front)
    EXPECT_LE(option.rows_per_step, option.padding == Padding::kPacked ? 4 : 32);
  EXPECT_EQ(got.job.data.padding, Padding::kPacked);
  asked.packed->lengths.assign(100, 30000);
  asked.packed->entries_per_row = 100;
  EXPECT_EQ(answer(asked).cheapest->padding, Padding::kLongest) << "one row holds too many";
}

// 32 entries are about 7 rows. As many as 8 GPUs divide are the same step on each number of them.
TEST(RecommendTest, PackedRowsOfAStepAreTheSameOnAnyNumberOfGpus) {
  Question asked = question("llama3.2-1b", kLora);
  asked.workload.lengths.assign(1600, 400);
  asked.workload.entries = 1600;
  asked.packed = asked.workload;
  asked.packed->padding = Padding::kPacked;
  asked.packed->entries = 348;
  asked.packed->entries_per_row = 4.6;
  asked.packed->lengths.assign(348, 2048);
  const std::vector<Option> options = options_to_try(asked, Json::object());
  std::set<int64_t> counts;
  for (const Option& option : options) {
    if (option.padding != Padding::kPacked) continue;
    counts.insert(option.gpus);
    EXPECT_EQ(option.rows_per_step, 8) << option.gpus;
    EXPECT_EQ(option.gpus / option.context_ranks * option.batch_per_gpu * option.accumulation, 8);
  }
  EXPECT_EQ(counts, (std::set<int64_t>{1, 2, 4, 8}));
  asked.most_gpus = 1;
  for (const Option& option : options_to_try(asked, Json::object()))
    EXPECT_EQ(option.rows_per_step, option.padding == Padding::kPacked ? 7 : 32);
}

TEST(RecommendTest, AGpuWithoutBfloat16TrainsInFloat16) {
  Question asked = question("llama3.2-1b", kLora);
  asked.gpus = {"Tesla-T4"};
  EXPECT_EQ(answer(asked).fastest->inputs["torch_dtype"], "float16");
  asked.experiment = Catalog::shipped().experiment(kFull);
  asked.model = "qwen2.5-0.5b";
  const TrainingJob all = answer(asked).job;
  EXPECT_EQ(all.precision.torch_dtype, ParameterDtype::kFloat32) << "or updates are lost";
  EXPECT_EQ(all.precision.autocast, Autocast::kFp16);
  asked.gpus = {kA100};
  EXPECT_FALSE(answer(asked).fastest->inputs.contains("torch_dtype"));
}

TEST(RecommendTest, BelowItsTurningPriceAnotherGpuIsTheCheapest) {
  const Question asked = question("llama3.1-8b", kLora);
  const Recommendation got = answer(asked);
  ASSERT_EQ(got.turns.size(), 1u);
  const TurningPrice& turn = got.turns[0];
  ASSERT_NE(turn.gpu, got.cheapest->gpu);
  for (const double share : {0.99, 1.01}) {
    PriceBook changed = book();
    for (Price& offer : changed.offers)
      if (offer.gpu == turn.gpu) offer.per_hour = share * turn.per_hour;
    const MachineOverrides overrides;
    Oracle oracle({}, {}, overrides, Catalog::shipped());
    const Option cheapest =
        *recommend(asked, changed, oracle, Uncertainty(ResidualTable::shipped())).cheapest;
    EXPECT_EQ(cheapest.gpu == turn.gpu, share < 1) << turn.gpu << " at " << share;
  }
}

// One GPU of an instance of eight costs what eight do.
TEST(PriceBookTest, WholeInstancesAreRented) {
  PriceBook book;
  const auto offer = [&book](int64_t gpus, double per_hour, const std::string& kind) {
    Price price;
    price.gpu = kH100;
    price.gpus = gpus;
    price.per_hour = per_hour;
    price.kind = kind;
    book.offers.push_back(price);
    if (kind != "spot") book.prices[kH100] = price;
  };
  offer(1, 4, "on_demand");
  offer(8, 2, "on_demand");
  offer(1, 0.5, "spot");
  EXPECT_DOUBLE_EQ(book.rent(kH100, 1)->per_hour, 4);
  EXPECT_EQ(book.rent(kH100, 4)->gpus, 4) << "16 an hour, as eight of the other";
  EXPECT_DOUBLE_EQ(book.rent(kH100, 5)->per_hour, 16);
  EXPECT_EQ(book.rent(kH100, 5)->gpus, 8);
  EXPECT_DOUBLE_EQ(book.rent(kH100, 9)->per_hour, 32);
  EXPECT_FALSE(book.rent(kA100, 1));
}

TEST(RecommendTest, EnergyIsThatOfTheBoardUntilOneIsMeasured) {
  Question asked = question("llama3.1-8b", kLora);
  asked.gpus = {kA100};
  asked.gpu_watts = {{kH100, 512}};
  const Option bound = *answer(asked).cheapest;
  EXPECT_DOUBLE_EQ(*bound.most_energy_kwh, bound.hours * static_cast<double>(bound.gpus) * 0.4);
  EXPECT_FALSE(bound.energy_kwh) << "another GPU's power says nothing";
  asked.gpu_watts = {{kA100, 250}};
  const Option measured = *answer(asked).cheapest;
  EXPECT_DOUBLE_EQ(*measured.energy_kwh,
                   measured.hours * static_cast<double>(measured.gpus) * 0.25);
}

TEST(RecommendTest, ALargeModelTakesSeveralGpusAndSaysWhy) {
  Question asked = question("llama3.1-8b", kFull);
  asked.gpus = {kA100};
  const Recommendation got = answer(asked);
  ASSERT_TRUE(got.cheapest);
  EXPECT_THAT(got.reasons.front(), HasSubstr("of parameters"));
  asked.model = "llama3.1-70b";
  asked.most_gpus = 32;
  const Recommendation large = answer(asked);
  EXPECT_GE(large.cheapest->gpus, 8);
  EXPECT_EQ(large.cheapest->nodes, large.cheapest->gpus / 8);
}

// A row that no GPU holds is divided, and the answer says what the whole one would need.
TEST(RecommendTest, DividesRowsThatNoGpuHolds) {
  Question asked = question("llama3.1-8b", kFull);
  asked.gpus = {kA100};
  asked.by_this_program = false;  // which would divide the MLPs, too
  asked.workload.model_max_length = 131072;
  asked.batch = 4;
  const Recommendation got = answer(asked);
  ASSERT_TRUE(got.cheapest);
  EXPECT_GT(got.cheapest->context_ranks, 1);
  EXPECT_EQ(got.cheapest->inputs["context_parallel"], got.cheapest->context_ranks);
  EXPECT_THAT(got.reasons, ::testing::Contains(HasSubstr(" of 79.1 GiB")));
  asked.workload.model_max_length = 1024;
  asked.batch = 32;
  EXPECT_EQ(answer(asked).cheapest->context_ranks, 1) << "short rows stay whole";
}

TEST(RecommendTest, WhatCannotBeKeptNamesTheNearest) {
  Question asked = question("llama3.1-8b", kLora);
  asked.deadline_s = 1;
  EXPECT_THAT(error_of(asked),
              HasSubstr("--deadline: no configuration keeps it within 1 s (with units: "
                        "90s, 30m, 6h, 2d); expected the fastest that fits: "));
  asked.deadline_s.reset();
  asked.budget = 0.01;
  EXPECT_THAT(error_of(asked), HasSubstr("the cheapest: "));
  asked.deadline_s = 1e9;
  EXPECT_THAT(error_of(asked),
              ::testing::StartsWith("--budget: no configuration keeps it; expected the fastest"))
      << "the deadline is kept by all";
  asked.deadline_s = 1;
  EXPECT_THAT(error_of(asked), ::testing::StartsWith("--deadline, --budget: no configuration"));
  asked = question("llama3.1-405b", kFull);
  asked.most_gpus = 1;
  EXPECT_THAT(error_of(asked), HasSubstr("OOM_GPU: no configuration fits"));
}

TEST(RecommendTest, WhoeverTakesAnyRiskIsRefusedNothingForMemory) {
  Question asked = question("llama3.1-8b", kFull);
  asked.gpus = {kA100};
  asked.most_gpus = 1;
  const auto says_so = [](const Recommendation& got) {
    return std::any_of(got.ruled_out.begin(), got.ruled_out.end(), [](const RuledOut& reason) {
      return reason.reason == "does not fit" || reason.reason == "risks more to run out of memory";
    });
  };
  asked.most_risk = 1;
  const Recommendation any = answer(asked);
  EXPECT_FALSE(says_so(any));
  EXPECT_FALSE(any.fastest->checkpointing);
  asked.most_risk = 0.01;
  asked.most_gpus = 8;
  const Recommendation careful = answer(asked);
  EXPECT_TRUE(says_so(careful));
  EXPECT_LE(*careful.fastest->memory_risk, 0.01);
}

TEST(RecommendTest, WithoutAPriceThereIsOnlyAFastest) {
  Question asked = question("llama3.1-8b", kLora);
  asked.gpus = {"L40S"};
  const Recommendation got = answer(asked);
  EXPECT_FALSE(got.cheapest);
  EXPECT_TRUE(got.fastest);
  asked.budget = 100;
  EXPECT_THAT(error_of(asked), HasSubstr("no configuration keeps it"));
}

TEST(WorkloadTest, PaddingIsCountedInTheOrderOfTheEntries) {
  Workload work{.entries = 4,
                .model_max_length = 100,
                .epochs = 2,
                .lengths = {10, 50, 200, 30},
                .counted = {}};
  EXPECT_EQ(work.longest(), 100);
  EXPECT_DOUBLE_EQ(work.tokens(), 2 * (10 + 50 + 100 + 30));
  EXPECT_DOUBLE_EQ(work.padded_length(1), 190.0 / 4);
  EXPECT_DOUBLE_EQ(work.padded_length(2), (2 * 50 + 2 * 100) / 4.0);
  EXPECT_DOUBLE_EQ(work.padded_length(3), (3 * 100 + 30) / 4.0);
  work.lengths.clear();
  EXPECT_DOUBLE_EQ(work.padded_length(2), 100);
  EXPECT_DOUBLE_EQ(work.tokens(), 800);
}

TEST(PriceBookTest, ErrorsNameFileKeyAndWhatWasFound) {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("sftbench-prices-" + std::to_string(::getpid()) + ".yaml"))
                               .string();
  write_file_atomic(path, R"(currency: EUR
prices:
  - {gpu: NVIDIA-H1000, per_hour: 1}
  - {gpu: L40S, per_hour: 0}
  - {gpu: NVIDIA L40S, per_hour: 2}
  - {gpu: Tesla-T4, hourly: 2}
)");
  std::string all;
  try {
    PriceBook::read(path, Catalog::shipped().gpus);
  } catch (const InputError& error) {
    all = error.what();
  }
  std::filesystem::remove(path);
  EXPECT_THAT(all, HasSubstr("unknown GPU 'NVIDIA-H1000'"));
  EXPECT_THAT(all, HasSubstr("prices[1].per_hour: no price"));
  EXPECT_THAT(all, HasSubstr("L40S has two prices"));
  EXPECT_THAT(all, HasSubstr("prices[3].hourly"));
  const std::string shipped = (resource_directory() / "config" / "prices.yaml").string();
  EXPECT_NE(PriceBook::read(shipped, Catalog::shipped().gpus).find(kA100), nullptr);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
