// Arguments: properties that are inputs only where they differ from what the documents fix; and the
// ways in which options give them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sftbench/space/space.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

std::vector<std::string> required() {
  return {"model_name=smollm2-135m", "number_gpus=0", "model_max_length=512", "batch_size=4"};
}

Space space_of(std::vector<std::string> more, std::vector<GivenValue> given = {},
               const std::string& experiment = "finetune_lora_benchmark-v1.0.0") {
  SpaceOptions options;
  options.experiment = experiment;
  options.given = std::move(given);
  options.assignments = std::move(more);
  for (const std::string& text : required()) {
    const std::string head = text.substr(0, text.find('=') + 1);
    const bool there =
        std::any_of(options.assignments.begin(), options.assignments.end(),
                    [&](const std::string& other) { return other.rfind(head, 0) == 0; });
    if (!there) options.assignments.push_back(text);
  }
  return space_from_assignments(Catalog::shipped(), options);
}

Json inputs_of(const std::vector<std::string>& more) {
  const Space space = space_of(more);
  return make_request(space.entity(0), space.experiments.front()).inputs;
}

std::string error_of(const std::vector<std::string>& more, std::vector<GivenValue> given = {}) {
  try {
    space_of(more, std::move(given));
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

YamlNode scalar(const std::string& text) {
  YamlNode node;
  node.text = text;
  node.plain = true;
  node.value = resolve_yaml_scalar(text);
  return node;
}

TEST(ArgumentsTest, AreInputsWhereTheyDifferFromWhatTheDocumentsFix) {
  const Json plain = inputs_of({});
  for (const char* same :
       {"learning_rate=1e-5", "learning_rate=0.00001", "seed=42", "lr_scheduler_type=cosine",
        "lr_scheduler_kwargs={}", "warmup_steps=0", "lora_dropout=0.05",
        "response_template=\\n### Response:", "response_template=\"\\n### Response:\"",
        "target_modules=None", "use_dora=false", "modules_to_save=None", "rank_pattern={}",
        "alora_invocation_string=None"}) {
    EXPECT_EQ(inputs_of({same}), plain) << same;
  }
  EXPECT_EQ(inputs_of({"learning_rate=2e-5"})["learning_rate"], 2e-5);
  EXPECT_EQ(inputs_of({"seed=7"})["seed"], 7);
  EXPECT_EQ(inputs_of({"lr_scheduler_kwargs={min_lr_rate: 0.1}"})["lr_scheduler_kwargs"],
            R"({"min_lr_rate":0.1})");
  EXPECT_EQ(inputs_of({R"(lr_scheduler_kwargs={"min_lr_rate": 0.1})"}),
            inputs_of({"lr_scheduler_kwargs={min_lr_rate: 0.1}"}));
  EXPECT_EQ(inputs_of({"response_template=\\n## Label:"})["response_template"], "\\n## Label:");
  EXPECT_EQ(inputs_of({"alora_invocation_string=\\n### Act:"})["alora_invocation_string"],
            "\\n### Act:");
  EXPECT_EQ(inputs_of({"response_template=None"})["response_template"], nullptr);
  EXPECT_EQ(
      inputs_of({"data_formatter_template=### {{input}} # {{output}}"})["data_formatter_template"],
      "### {{input}} # {{output}}");
}

TEST(ArgumentsTest, TargetsAreNamesOrARegularExpression) {
  EXPECT_EQ(inputs_of({"target_modules=all-linear"})["target_modules"], Json({"all-linear"}));
  const Json two = Json({"q_proj", "v_proj"});
  EXPECT_EQ(inputs_of({"target_modules=q_proj,v_proj"})["target_modules"], two);
  EXPECT_EQ(inputs_of({"target_modules=[q_proj, v_proj]"})["target_modules"], two);
  EXPECT_EQ(inputs_of({R"(target_modules='.*\.(q|v)_proj')"})["target_modules"],
            R"(.*\.(q|v)_proj)");
  EXPECT_EQ(space_of({"target_modules=[[q_proj], [q_proj, v_proj]]"}).entity_count(), 2);
}

TEST(ArgumentsTest, CommasSweep) {
  EXPECT_EQ(space_of({"batch_size=1,2,4,8"}).entity_count(), 4);
  EXPECT_EQ(space_of({"learning_rate=1e-5, 2e-5"}).entity_count(), 2);
  EXPECT_EQ(space_of({"lr_scheduler_type=cosine,linear"}).entity_count(), 2);
  EXPECT_EQ(space_of({"gradient_checkpointing=true,false"}).entity_count(), 2);
  EXPECT_EQ(space_of({"response_template=a, b"}).entity_count(), 1);  // a text may have one
  EXPECT_THAT(error_of({"batch_size=1,x"}),
              HasSubstr("--set batch_size[1]: 'x' is no value of batch_size; expected an integer"));
  EXPECT_THAT(error_of({"batch_size=1,,2"}), HasSubstr("'1,,2' is no value of batch_size"));
}

TEST(ArgumentsTest, OptionsGiveThemUnderTheirOwnName) {
  const GivenValue rate = {"--learning-rate", "learning_rate", scalar("2e-5")};
  const Space space = space_of({}, {rate});
  EXPECT_EQ(make_request(space.entity(0), space.experiments.front()).inputs["learning_rate"], 2e-5);
  EXPECT_THAT(error_of({"learning_rate=1e-4"}, {rate}),
              HasSubstr("--learning-rate: gives what --set learning_rate gives, too; expected one "
                        "of them"));
  EXPECT_THAT(error_of({}, {{"--learning-rate", "learning_rate", scalar("fast")}}),
              HasSubstr("--learning-rate: 'fast' is no value of learning_rate; expected a number "
                        "from 0"));
  EXPECT_THAT(error_of({}, {{"--virtual-tokens", "num_virtual_tokens", scalar("8")}}),
              HasSubstr("--virtual-tokens: unknown property 'num_virtual_tokens'; expected a "
                        "property of finetune_lora_benchmark-v1.0.0"));
}

TEST(ArgumentsTest, NumbersStayWithinTheirRange) {
  for (const char* wrong :
       {"learning_rate=-1", "learning_rate=.nan", "learning_rate=.inf", "weight_decay=-0.1",
        "adam_beta1=1", "adam_beta2=1.5", "warmup_ratio=2", "warmup_steps=-1", "warmup_steps=1.5",
        "max_grad_norm=-1", "seed=-1", "seed=4294967296", "lora_dropout=1", "r=0", "lora_alpha=0",
        "lr_scheduler_kwargs=[1]", "lr_scheduler_kwargs='{\"a\"'", "target_modules=[]",
        "tf32=perhaps"}) {
    const std::string name = std::string(wrong).substr(0, std::string(wrong).find('='));
    EXPECT_THAT(error_of({wrong}), HasSubstr("is no value of " + name)) << wrong;
  }
  EXPECT_THAT(error_of({"lr_scheduler_type=cosin"}), HasSubstr("did you mean 'cosine'?"));
  EXPECT_EQ(space_of({"r=64", "lora_alpha=128"}).entity_count(), 1);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
