// A job that was edited says so: inputs, key and ids are those of what is trained.
#include "sftbench/plan/job_file.h"

#include <gmock/gmock.h>

#include <functional>

#include "plan_files.h"
#include "sftbench/base/error.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Edit = std::function<void(Json&)>;

class JobFileTest : public PlanTest {
 protected:
  JobFileTest() { options_.weights = "random"; }

  TrainingJob resolved(const std::vector<std::string>& assignments = {},
                       const std::string& experiment = "finetune_full_benchmark-v1.0.0") {
    return resolve(request(assignments, experiment), settings_, options_, Catalog::shipped()).job;
  }

  // What `run --job` makes of the printed job after the edit.
  JobFile edited(const TrainingJob& job, const Edit& edit) {
    Json json = Json::parse(job_file(job).dump());
    edit(json);
    return read_job_file(file("job.json", json.dump(2)));
  }
  std::string failure(const Edit& edit) {
    return error_of([&] { edited(resolved(), edit); });
  }

  ActuatorSettings settings_;
  ResolveOptions options_;
};

std::string key_of(const TrainingJob& job) {
  return measurement_key(job.experiment, job.inputs);
}

TEST_F(JobFileTest, AJobThatNobodyEditedIsReadAsItWas) {
  const TrainingJob job = resolved();
  const JobFile read = edited(job, [](Json&) {});
  EXPECT_THAT(read.edited, IsEmpty());
  EXPECT_EQ(to_json(read.job), to_json(job));
}

TEST_F(JobFileTest, ATokenizerBesideAnOwnModelIsNoEdit) {
  options_.model_path = model_folder("mine", "llama");
  options_.own_model = true;
  const TrainingJob job = resolved({"tokenizer_name_or_path=" + model_folder("other", "llama")});
  ASSERT_TRUE(job.inputs.contains("model_config"));
  const JobFile read = edited(job, [](Json&) {});
  EXPECT_THAT(read.edited, IsEmpty());
  EXPECT_EQ(to_json(read.job), to_json(job));
}

TEST_F(JobFileTest, AModelThatOnlyModelMapNamesIsNoEdit) {
  settings_.model_map["my-3b"]["Vanilla"] = model_folder("mine", "llama");
  const TrainingJob job = resolved({"model_name=my-3b"});
  const JobFile read = edited(job, [](Json&) {});
  EXPECT_THAT(read.edited, IsEmpty());
  EXPECT_EQ(to_json(read.job), to_json(job));
}

TEST_F(JobFileTest, WhatIsNoPartOfTheMeasurementChangesNoKey) {
  const TrainingJob job = resolved();
  const JobFile read = edited(job, [](Json& json) {
    json["device"]["threads"] = 3;
    json["trace_path"] = "trace.json";
    json["sample_period_s"] = 0.5;
    json["save"]["steps"] = 7;
    json["parallel"]["timeout_s"] = 5.0;
  });
  EXPECT_THAT(read.edited, IsEmpty());
  EXPECT_EQ(read.job.inputs, job.inputs);
  EXPECT_EQ(read.job.experiment_id, job.experiment_id);
}

// The job of one space, edited into that of another, is that other one: also its key.
class EditedIntoAnother : public JobFileTest, public testing::WithParamInterface<const char*> {};

TEST_P(EditedIntoAnother, HasItsInputsAndKey) {
  const std::string given = GetParam(), full = "finetune_full_benchmark-v1.0.0";
  const PropertySpec* property =
      Catalog::shipped().experiment(full)->find(given.substr(0, given.find('=')));
  const bool of_full = property != nullptr && !property->without_effect;
  const std::string experiment = of_full ? full : "finetune_lora_benchmark-v1.0.0";
  const TrainingJob other = resolved({GetParam()}, experiment);
  const JobFile read = edited(resolved({}, experiment), [&](Json& json) {
    const Json wanted = to_json(other);
    for (auto& [section, fields] : json.items()) {
      if (section == "inputs" || section == "fingerprint" || section == "entity_id" ||
          section == "experiment_id" || section == "entity")
        continue;
      fields = wanted.at(section);
    }
  });
  EXPECT_EQ(read.job.inputs, other.inputs);
  EXPECT_EQ(key_of(read.job), key_of(other));
  EXPECT_EQ(to_json(other)["experiment"], read.job.experiment);
  const std::string in_id = given.substr(0, given.find('=')) + ".";
  EXPECT_THAT(read.job.entity_id + read.job.experiment_id, HasSubstr(in_id));
}

INSTANTIATE_TEST_SUITE_P(
    Properties, EditedIntoAnother,
    testing::Values(
        "batch_size=12", "model_max_length=256", "torch_dtype=float32", "optim=adafactor",
        "gradient_checkpointing=false", "gradient_checkpointing_use_reentrant=true",
        "flash_attn=false", "gradient_accumulation_steps=2", "max_steps=7", "num_train_epochs=2",
        "stop_after_seconds=30", "accelerate_config_mixed_precision=bf16",
        "dataset_text_field=text", "dataset_id=news-chars-512-entries-256",
        "model_name=llama3.2-1b", "r=8", "lora_alpha=32", "learning_rate=0.003", "weight_decay=0.1",
        "adam_beta1=0.8", "adam_beta2=0.95", "adam_epsilon=1e-6", "max_grad_norm=0",
        "lr_scheduler_type=linear", "lr_scheduler_kwargs={num_cycles: 2}", "warmup_ratio=0.1",
        "warmup_steps=9", "offload_optimizer=true", "offload_activations=true",
        "offload_params=true", "mlp_tiles=4", "step_graph=true", "seed=7", "tf32=true",
        "response_template=None", "pretokenized=true", "data_formatter_template={{a}}\\n### {{b}}",
        "lora_dropout=0.25", "use_rslora=true", "use_dora=true", "modules_to_save=lm_head",
        "rank_pattern={q_proj: 2}", "alpha_pattern={q_proj: 2}",
        "alora_invocation_string=\\n### Act:"),
    [](const auto& test) {
      const std::string text = test.param;
      return text.substr(0, text.find('='));
    });

TEST_F(JobFileTest, TheIdsFollow) {
  const JobFile read = edited(resolved({"max_steps=5"}), [](Json& json) {
    json["batches"]["per_device_batch_size"] = 12;
    json["optimizer"]["learning_rate"] = 0.001;
  });
  EXPECT_THAT(read.edited, ElementsAre("batches.per_device_batch_size", "optimizer.learning_rate"));
  EXPECT_EQ(read.job.inputs.at("batch_size"), 12);
  EXPECT_EQ(read.job.inputs.at("learning_rate"), 0.001);
  const std::string ids = read.job.entity_id + " " + read.job.experiment_id;
  EXPECT_THAT(ids, HasSubstr("batch_size.12"));
  EXPECT_THAT(ids, testing::Not(HasSubstr("batch_size.6")));
  EXPECT_THAT(ids, HasSubstr("-learning_rate.0.001"));
}

TEST_F(JobFileTest, ArgumentsAndWhatNoPropertySaysAreInputs) {
  const std::vector<std::pair<const char*, Edit>> edits = {
      {"seed", [](Json& json) { json["seed"] = 7; }},
      {"lr_scheduler_type", [](Json& json) { json["optimizer"]["schedule"] = "linear"; }},
      {"lr_scheduler_kwargs",
       [](Json& json) {
         json["optimizer"]["schedule_options"] = {{"a", 1}};
       }},
      {"response_template", [](Json& json) { json["data"]["response_template"] = "x"; }},
      {"data_formatter_template",
       [](Json& json) { json["data"]["entry_template"] = "{{a}}\n{{b}}"; }},
      {"tokenizer_name_or_path", [](Json& json) { json["model"]["tokenizer_directory"] = "/t"; }},
      {"tf32", [](Json& json) { json["precision"]["tf32"] = true; }},
      {"job.tuning", [](Json& json) { json["tuning"] = "lora"; }},
      {"job.runs", [](Json& json) { json["runs"] = 2; }},
  };
  const TrainingJob job = resolved();
  for (const auto& [name, edit] : edits) {
    const JobFile read = edited(job, edit);
    EXPECT_TRUE(read.job.inputs.contains(name)) << name;
    EXPECT_NE(key_of(read.job), key_of(job)) << name;
    EXPECT_THAT(read.job.experiment_id, HasSubstr(name));
  }
}

// An edited job and a space that says the same are one measurement.
TEST_F(JobFileTest, AnEditedArgumentHasTheKeyOfTheSameProperty) {
  for (const auto& [setting, edit] : std::vector<std::pair<const char*, Edit>>{
           {"learning_rate=0.003", [](Json& json) { json["optimizer"]["learning_rate"] = 0.003; }},
           {"response_template=\\n## Label:",
            [](Json& json) { json["data"]["response_template"] = "\n## Label:"; }},
           {"lr_scheduler_kwargs={num_cycles: 2}",
            [](Json& json) {
              json["optimizer"]["schedule_options"] = {{"num_cycles", 2}};
            }},
           {"warmup_steps=9", [](Json& json) { json["optimizer"]["warmup_steps"] = 9; }}}) {
    const TrainingJob said = resolved({setting});
    const JobFile read = edited(resolved(), edit);
    EXPECT_EQ(key_of(read.job), key_of(said)) << setting;
  }
  const JobFile back = edited(resolved({"learning_rate=0.003"}),
                              [](Json& json) { json["optimizer"]["learning_rate"] = 1e-5; });
  EXPECT_EQ(key_of(back.job), key_of(resolved()));
}

TEST_F(JobFileTest, AnotherModelIsNotCalledTheOldOne) {
  const TrainingJob job = resolved();
  const JobFile config =
      edited(job, [](Json& json) { json["model"]["hf_config"]["num_hidden_layers"] = 2; });
  EXPECT_EQ(config.job.inputs.at("model_name"), "smollm2-135m-edited");
  EXPECT_TRUE(config.job.inputs.contains("job.model.hf_config"));
  EXPECT_THAT(config.job.entity_id + config.job.experiment_id,
              HasSubstr("model_name.smollm2-135m-edited"));
  const JobFile weights =
      edited(job, [](Json& json) { json["model"]["weights_directory"] = "/models/llama"; });
  EXPECT_EQ(weights.job.inputs.at("model_name"), "smollm2-135m-edited");
  EXPECT_EQ(weights.job.inputs.at("job.model.weights_directory"), "/models/llama");
  EXPECT_FALSE(weights.job.inputs.contains("weights"));  // no longer random
  const JobFile named = edited(job, [](Json& json) {
    json["model"]["name"] = "mine";
    json["model"]["hf_config"]["num_hidden_layers"] = 2;
  });
  EXPECT_EQ(named.job.inputs.at("model_name"), "mine");
}

TEST_F(JobFileTest, AnotherFileIsAnotherDataset) {
  const JobFile read =
      edited(resolved(), [](Json& json) { json["data"]["path"] = "/data/mine.jsonl"; });
  EXPECT_EQ(read.job.inputs.at("dataset_id"), "mine");
  EXPECT_EQ(read.job.inputs.at("job.data.path"), "/data/mine.jsonl");
}

TEST_F(JobFileTest, RanksAndStrategiesFollow) {
  const JobFile read = edited(resolved(), [](Json& json) {
    json["device"]["ranks"] = 2;
    json["batches"]["per_device_batch_size"] = 3;
    json["parallel"]["strategy"] = "FULL_SHARD";
    json["kernels"]["fused_loss"] = false;
    json["data"]["padding"] = "packed";
  });
  EXPECT_EQ(read.job.inputs.at("cpu_ranks"), 2);
  EXPECT_EQ(read.job.inputs.at("batch_size"), 6);
  EXPECT_EQ(read.job.inputs.at("distributed_backend"), "FSDP");
  EXPECT_EQ(read.job.inputs.at("fsdp_sharding_strategy"), "FULL_SHARD");
  EXPECT_EQ(read.job.inputs.at("fast_kernels"), Json({"False", "True", "True"}));
  EXPECT_EQ(read.job.inputs.at("padding"), "packed");
}

TEST_F(JobFileTest, TheOrderOfMembersAndTheFormOfNumbersAreNoEdits) {
  const TrainingJob job = resolved();
  const std::string sorted = nlohmann::json::parse(job_file(job).dump()).dump();
  EXPECT_THAT(read_job_file(file("sorted.json", sorted)).edited, IsEmpty());
  const JobFile read = edited(job, [](Json& json) {
    json["optimizer"]["max_grad_norm"] = 1;
    json["inputs"]["num_train_epochs"] = 1;
  });
  EXPECT_THAT(read.edited, IsEmpty());
}

TEST_F(JobFileTest, WhatFollowsFromOthersIsNotEdited) {
  EXPECT_THAT(failure([](Json& json) { json["inputs"]["batch_size"] = 12; }),
              HasSubstr("job.json: inputs: was edited, and follows from the job's other fields"));
  EXPECT_THAT(failure([](Json& json) { json["entity"]["batch_size"] = 12; }),
              HasSubstr("job.json: entity.batch_size: was edited, and is what the space says of an "
                        "input; expected 6"));
  EXPECT_THAT(failure([](Json& json) { json["entity_id"] = "x"; }),
              HasSubstr("entity_id: was edited"));
  EXPECT_THAT(failure([](Json& json) { json["experiment"] = "finetune_lora_benchmark-v1.0.0"; }),
              HasSubstr("experiment: was edited"));
  EXPECT_THAT(failure([](Json& json) { json["model"]["name"] = "llama-70b"; }),
              HasSubstr("model.name: was edited, and the model is the one that it was"));
  EXPECT_THAT(failure([](Json& json) { json["data"]["dataset_id"] = "mine"; }),
              HasSubstr("data.dataset_id: was edited, and data.path is "));
}

TEST_F(JobFileTest, AJobWithoutItsFingerprintIsRefused) {
  EXPECT_THAT(failure([](Json& json) { json.erase("fingerprint"); }),
              HasSubstr("job.json: fingerprint: missing; expected a job that this version's "
                        "`sftbench run --dry-run` printed"));
  EXPECT_THAT(failure([](Json& json) { json["fingerprint"] = "0000"; }),
              HasSubstr("fingerprint: not of this version's fields"));
  EXPECT_THAT(failure([](Json& json) { json["fingerprint"] = 3; }),
              HasSubstr("fingerprint: not of this version's fields"));
}

// Jobs of version 0.1.0 say how keys and values travel, and their fingerprint has 8 digits of it.
TEST_F(JobFileTest, AJobThatNamesTheRingIsReadAsItWas) {
  const TrainingJob job = resolved();
  const auto with_rotation = [](const char* rotation) {
    return [rotation](Json& json) {
      size_t before = 0;  // fields up to parallel.context_ranks
      for (const auto& [section, value] : json.items()) {
        if (section == "entity") continue;
        if (section == "parallel") break;
        before += value.is_object() && section != "inputs" ? value.size() : 1;
      }
      for (const auto& [key, value] : json["parallel"].items()) {
        ++before;
        if (key == "context_ranks") break;
      }
      std::string fingerprint = json["fingerprint"];
      json["fingerprint"] = fingerprint.insert(8 * before, "01234567");
      json["parallel"]["context_rotation"] = rotation;
    };
  };
  const JobFile read = edited(job, with_rotation("ring"));
  EXPECT_THAT(read.edited, IsEmpty());
  EXPECT_EQ(to_json(read.job), to_json(job));
  EXPECT_FALSE(read.gathers);
  EXPECT_TRUE(edited(job, with_rotation("allgather")).gathers);
}

TEST_F(JobFileTest, AResultHoldsItsJob) {
  const TrainingJob job = resolved();
  Json result = {{"schema", "sftbench.measurement/1"},
                 {"experiment", job.experiment},
                 {"experiment_id", job.experiment_id},
                 {"entity_id", job.entity_id},
                 {"entity", job.entity},
                 {"inputs", job.inputs},
                 {"job", job_in_result(job)}};
  const JobFile read = read_job_file(file("result.json", result.dump(2)));
  EXPECT_THAT(read.edited, IsEmpty());
  EXPECT_EQ(to_json(read.job), to_json(job));
  Json older = result;  // a result of a version that did not write how the space spells the inputs
  older.erase("entity");
  EXPECT_TRUE(read_job_file(file("older.json", older.dump(2))).job.entity.empty());
  result["job"]["batches"]["per_device_batch_size"] = 12;
  EXPECT_EQ(read_job_file(file("result.json", result.dump(2))).job.inputs.at("batch_size"), 12);
  result.erase("job");
  EXPECT_THAT(error_of([&] { read_job_file(file("result.json", result.dump(2))); }),
              HasSubstr("result.json: job: missing"));
}

TEST_F(JobFileTest, AnEditedJobThatIsEditedAgainHasItsLastValues) {
  const JobFile once =
      edited(resolved(), [](Json& json) { json["optimizer"]["learning_rate"] = 0.001; });
  EXPECT_THAT(edited(once.job, [](Json&) {}).edited, IsEmpty());
  const JobFile twice =
      edited(once.job, [](Json& json) { json["optimizer"]["learning_rate"] = 0.01; });
  EXPECT_EQ(twice.job.inputs.at("learning_rate"), 0.01);
  EXPECT_THAT(twice.job.experiment_id, testing::EndsWith("-learning_rate.0.01"));
}

TEST_F(JobFileTest, AConfigThatCannotBeDoneHasTheCodeThatItHasThroughASpace) {
  TrainingJob job = resolved();
  EXPECT_NO_THROW(refuse_unfit_model(job, "job.json"));
  job.model.hf_config["hidden_size"] = -1;
  try {
    refuse_unfit_model(job, "job.json");
    FAIL() << "no error";
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kWeights);
    EXPECT_THAT(error.what(), HasSubstr("job.json: model.hf_config: hidden_size"));
  }
  job.model.hf_config["model_type"] = "bert";
  try {
    refuse_unfit_model(job, "job.json");
    FAIL() << "no error";
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("its family, bert, is not one that this version trains"));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
