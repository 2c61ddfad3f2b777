// Text of a user on its way through a shell: every place of a plan that reaches a Slurm script, a
// manifest or a job of Ray is filled with what shells, sbatch and Kubernetes act on. The scripts
// are really run, with stand-ins for the commands that they call. Every word must arrive as it was,
// and nothing else may happen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>

#include "campaign/campaign_fixture.h"
#include "campaign/fake_ray.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/campaign/engines.h"
#include "sftbench/catalog/catalog.h"
#include "temporary_file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr const char* kSentinel = "HACKED";  // what every text tries to make

const std::vector<std::string> kHeads = {"",
                                         "a ",
                                         "-",
                                         "'",
                                         "\"",
                                         "\\",
                                         "\n",
                                         "\r\n",
                                         "X=1",
                                         "# ",
                                         "%a}",
                                         "END_OF_BATCH_SCRIPT\n",
                                         "\n#SBATCH --wrap="};
const std::vector<std::string> kTails = {"touch HACKED",
                                         "$(touch HACKED)",
                                         "`touch HACKED`",
                                         ";touch HACKED;",
                                         "|touch HACKED&",
                                         "\ntouch HACKED\n",
                                         ">HACKED",
                                         "HACKED=1",
                                         "$(HF_HOME)$$(HF_HOME)$$",
                                         "'\ntouch HACKED\n'",
                                         "\"\ntouch HACKED\n\"",
                                         "'$(touch HACKED)'",
                                         "\nEND_OF_BATCH_SCRIPT\ntouch HACKED\n",
                                         "\nEND_OF_BATCH_SCRIPT_\ntouch HACKED",
                                         "$'\\n'touch HACKED",
                                         "a[$(touch HACKED)]",
                                         "{a,b}*~!!",
                                         "\\",
                                         "\t# \"HACKED"};

std::vector<std::string> all_texts() {
  std::vector<std::string> texts;
  // Every head and every tail several times: each script is run by processes of its own.
  for (size_t head = 0; head < kHeads.size(); ++head) {
    for (size_t tail = head % 3; tail < kTails.size(); tail += 3) {
      texts.push_back(kHeads[head] + kTails[tail]);
    }
  }
  return texts;
}

bool has_line_end(const std::string& text) {
  return text.find_first_of("\r\n") != std::string::npos;
}

// A place of a plan that holds text of a user.
struct Place {
  const char* name;
  std::function<void(CampaignPlan&, const std::string&)> fill;
};

const std::vector<Place>& places() {
  static const std::vector<Place> kPlaces = {
      {"--template",
       [](CampaignPlan& plan, const std::string& text) {
         plan.options.push_back({"--template", text, false, true});
       }},
      {"--set",
       [](CampaignPlan& plan, const std::string& text) {
         plan.options.push_back({"--set", "x=" + text, false, true});
       }},
      {"--track",
       [](CampaignPlan& plan, const std::string& text) {
         plan.options.push_back({"--track", "jsonl=" + text, false, true});
       }},
      {"--env",
       [](CampaignPlan& plan, const std::string& text) { plan.environment["NAME"] = text; }},
      {"HF_HOME",
       [](CampaignPlan& plan, const std::string& text) { plan.environment["HF_HOME"] = text; }},
      {"--program", [](CampaignPlan& plan, const std::string& text) { plan.program = text; }},
      {"the name of the space",
       [](CampaignPlan& plan, const std::string& text) { plan.name = dns_label(text); }},
      {"the GPU model",
       [](CampaignPlan& plan, const std::string& text) {
         for (WorkerGroup& group : plan.groups) group.need.gpu_model = text;
       }},
      {"the entity",
       [](CampaignPlan& plan, const std::string& text) {
         for (WorkerGroup& group : plan.groups) group.cells.front().entity_id = text;
       }},
      {"the experiment",
       [](CampaignPlan& plan, const std::string& text) {
         for (WorkerGroup& group : plan.groups) group.cells.front().experiment_id = text;
       }},
      {"the part of the space", [](CampaignPlan& plan, const std::string& text) {
         for (WorkerGroup& group : plan.groups) group.narrowing = {{"gpu_model", text}};
       }}};
  return kPlaces;
}

CampaignPlan plan_with(const std::string& text, int64_t nodes) {
  CampaignPlan plan = plan_of(group_cells({gpu_cell(nodes, nodes)}, {{}, 1}));
  plan.options.erase(plan.options.begin());  // the space's file, which need not be there
  for (const Place& place : places()) place.fill(plan, text);
  return plan;
}

// What sbatch takes from a line #SBATCH: Slurm's src/sbatch/opt.c, _get_argument.
std::string as_sbatch_reads(const std::string& line) {
  std::string argument;
  char quote = 0;
  for (size_t i = line.find("--"); i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\\' && i + 1 < line.size()) {
      argument += line[++i];
    } else if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (quote == 0 && (c == '#' || std::isspace(static_cast<unsigned char>(c)) != 0)) {
      break;
    } else {
      argument += c;
    }
  }
  return argument;
}

// Of the only batch script; sbatch stops at the first line that is no comment.
std::vector<std::string> directives(const std::string& script) {
  std::istringstream lines(script);
  std::string line;
  while (std::getline(lines, line) && line.rfind("sbatch <<", 0) != 0) continue;
  std::vector<std::string> all;
  while (std::getline(lines, line) && line.front() == '#') {
    if (line.rfind("#SBATCH", 0) == 0) all.push_back(as_sbatch_reads(line));
  }
  return all;
}

// As Kubernetes does with commands, arguments and environments:
// third_party/forked/golang/expansion.
std::string as_kubernetes_expands(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    const size_t end = text.find(')', i);
    if (text[i] != '$' || (next != '$' && next != '(')) {
      out += text[i];
    } else if (next == '$') {
      out += text[i++];
    } else if (end != std::string::npos && text.compare(i, end + 1 - i, "$(HF_HOME)") == 0) {
      out += "the value of HF_HOME";
      i = end;
    } else {
      out += text[i];
    }
  }
  return out;
}

class ShellTextTest : public testing::Test {
 protected:
  ShellTextTest() {
    ::unsetenv("NAME");  // which the scripts write down
    fs::create_directories(folder_ / "records");
    fs::create_directories(folder_ / "scripts");
    fs::create_directories(folder_ / "here");
    fs::current_path(folder_ / "here");
  }
  ~ShellTextTest() override { fs::current_path(before_); }

  std::string slurm(const CampaignPlan& plan, const std::string& comment) const {
    std::ostringstream out;
    make_slurm_engine({{"comment=" + comment}, false, {}}, {})->start(plan, out);
    return out.str();
  }

  void add_script(const std::string& script) {
    std::ofstream(folder_ / "scripts" / std::to_string(scripts_++)) << script;
  }

  // Every script by bash. Whatever command it calls is written down, each word ended by a zero byte
  // and each command by the value of NAME and two more.
  void run_scripts() {
    std::ofstream(folder_ / "run.sh") << R"(cd "$1"
command_not_found_handle() {
  printf '%s\0' "$@" "NAME=${NAME-}" '' >>"$RECORD"
  echo measure,
}
python3() { command_not_found_handle python3 "$@"; }
scontrol() { command_not_found_handle scontrol "$@"; }
sbatch() { bash /dev/stdin; }
export -f command_not_found_handle python3 scontrol sbatch
export SLURM_ARRAY_TASK_ID=0 JOB_COMPLETION_INDEX=0
for ((i = 0; i < $2; i++)); do
  RECORD=$1/records/$i bash "$1/scripts/$i" >/dev/null 2>"$1/errors"
done
)";
    const std::string command = "bash '" + (folder_ / "run.sh").string() + "' '" +
                                folder_.string() + "' " + std::to_string(scripts_);
    ASSERT_EQ(std::system(command.c_str()), 0);
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_)) {
      EXPECT_NE(entry.path().filename(), kSentinel) << entry.path();
    }
  }

  // The commands of a script, in the order in which they were called.
  std::vector<std::vector<std::string>> calls(int script) const {
    std::ifstream record(folder_ / "records" / std::to_string(script), std::ios::binary);
    std::vector<std::vector<std::string>> all;
    std::vector<std::string> call;
    for (std::string word; std::getline(record, word, '\0');) {
      const bool ended = word.empty() && !call.empty() && call.back().rfind("NAME=", 0) == 0;
      if (!ended) {
        call.push_back(word);
        continue;
      }
      all.push_back(std::move(call));
      call.clear();
    }
    return all;
  }

  fs::path before_ = fs::current_path();
  fs::path folder_ = temporary_file("sandbox");
  int scripts_ = 0;
};

std::vector<std::string> with(std::vector<std::string> words,
                              const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(ShellTextTest, ReachesTheWorkersOfSlurmAsItIs) {
  std::vector<CampaignPlan> plans;
  std::vector<std::string> texts = all_texts();
  for (const std::string& text : texts) {
    CampaignPlan plan = plan_with(text, 1);
    const bool fits_a_line = !has_line_end(text);
    fs::current_path(folder_ / "here");
    if (fits_a_line) {
      plan.output = text.find('\\') == std::string::npos ? text : "results";
      fs::create_directories(text);
      fs::current_path(text);
    }
    const std::string script = slurm(plan, fits_a_line ? text : "none");
    std::string pattern;
    for (const char c : plan.output) pattern += c == '%' ? "%%" : std::string(1, c);
    EXPECT_THAT(directives(script),
                testing::IsSupersetOf({"--chdir=" + fs::current_path().string(),
                                       "--comment=" + (fits_a_line ? text : "none"),
                                       "--output=" + pattern + "/slurm/%x-%A_%a.log"}))
        << text;
    EXPECT_THAT(directives(script), testing::Each(testing::Not(testing::StartsWith("--wrap"))));
    add_script(script);
    plans.push_back(std::move(plan));
  }
  run_scripts();
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<std::string> expected =
        with(worker_words(plans[i], plans[i].groups.front()), {"NAME=" + texts[i]});
    ASSERT_THAT(calls(static_cast<int>(i)), testing::ElementsAre(ElementsAreArray(expected)))
        << texts[i];
  }
}

TEST_F(ShellTextTest, ReachesTheWorkersOfSeveralNodesOnSlurmAsItIs) {
  const std::vector<std::string> texts = all_texts();
  for (const std::string& text : texts) add_script(slurm(plan_with(text, 2), "none"));
  run_scripts();
  for (size_t i = 0; i < texts.size(); ++i) {
    const CampaignPlan plan = plan_with(texts[i], 2);
    const std::vector<std::string> expected =
        with(worker_words(plan, plan.groups.front()), {"--launcher", "srun", "NAME=" + texts[i]});
    ASSERT_THAT(calls(static_cast<int>(i)), testing::ElementsAre(ElementsAreArray(expected)))
        << texts[i];
  }
}

TEST_F(ShellTextTest, ReachesThePodsOfKubernetesAsItIs) {
  const std::vector<std::string> texts = all_texts();
  const auto container_of = [](const CampaignPlan& plan) {
    std::ostringstream out;
    make_kubernetes_engine({"image=" + plan.options.back().value.value_or("i")},
                           Catalog::shipped().gpus)
        ->start(plan, out);
    YAML::Node spec = YAML::LoadAll(out.str()).at(1)["spec"];
    if (spec["replicatedJobs"]) spec = spec["replicatedJobs"][0]["template"]["spec"];
    return spec["template"]["spec"]["containers"][0];
  };
  for (const std::string& text : texts) {
    const CampaignPlan plan = plan_with(text, 1);
    const YAML::Node worker = container_of(plan);
    std::vector<std::string> words = {
        as_kubernetes_expands(worker["command"][0].as<std::string>())};
    for (const YAML::Node& word : worker["args"]) {
      words.push_back(as_kubernetes_expands(word.as<std::string>()));
    }
    CampaignPlan there = plan;
    there.output = "/data/results";
    ASSERT_THAT(words, ElementsAreArray(worker_words(there, plan.groups.front(), "/config")));
    std::map<std::string, std::string> environment;
    for (const YAML::Node& variable : worker["env"]) {
      environment[variable["name"].as<std::string>()] =
          as_kubernetes_expands(variable["value"].as<std::string>());
    }
    ASSERT_EQ(environment["NAME"], text);
    ASSERT_EQ(environment["HF_HOME"], text);
    add_script(
        as_kubernetes_expands(container_of(plan_with(text, 2))["args"][0].as<std::string>()));
  }
  run_scripts();
  for (size_t i = 0; i < texts.size(); ++i) {
    CampaignPlan plan = plan_with(texts[i], 2);
    plan.output = "/data/results";
    const std::vector<std::string> choice =
        with(choice_of(plan.groups.front().cells.front()), {"NAME="});
    ASSERT_THAT(calls(static_cast<int>(i)),
                testing::ElementsAre(ElementsAreArray(with(asking_words(plan, "/config"), choice)),
                                     ElementsAreArray(with(rank_words(plan, "/config"), choice))))
        << texts[i];
  }
}

// The entrypoint of a job is a line for a shell.
TEST_F(ShellTextTest, ReachesTheJobsOfRayAsItIs) {
  std::string lines;
  std::vector<std::vector<std::string>> expected;
  const FakeRay ray;
  RaySettings settings;
  settings.address = ray.url();
  settings.poll_s = 0.001;
  size_t jobs = 0;
  for (const std::string& text : all_texts()) {
    for (const int64_t nodes : {1, 2}) {
      if (text.front() == '%' && nodes == 1) continue;  // bash takes it for a job of its own
      if (text.find('$') == std::string::npos && nodes == 2) continue;  // as on one
      CampaignPlan plan = plan_with(text, nodes);
      plan.output = "/shared/" + text;
      std::ostringstream out;
      ASSERT_EQ(make_ray_engine(settings, {})->start(plan, out), 0);
      const Json job = ray.submitted().at(jobs++);
      // Ray expands these as os.path.expandvars() does (ray/_private/utils.py, update_envs).
      const Json& variables = job["runtime_env"]["env_vars"];
      const bool in_line = text.find('$') != std::string::npos;
      ASSERT_EQ(variables.contains("NAME"), !in_line);
      ASSERT_EQ(variables.value("NAME", text), text);
      lines += job["entrypoint"].get<std::string>() + "\n";
      expected.push_back(with(worker_words(plan, plan.groups.front(), "."),
                              {"NAME=" + (in_line && nodes == 1 ? text : std::string())}));
      if (nodes == 1) continue;
      Json environment = Json::object();
      if (in_line) environment = {{"HF_HOME", text}, {"NAME", text}};
      const Json need = {{"nodes", 2},
                         {"bundle", {{"CPU", 2}, {"GPU", 1}, {text, 1}, {"full-worker", 1}}},
                         {"environment", environment}};
      expected.back().insert(expected.back().begin(), {"python3", "ray_nodes.py", json_text(need)});
    }
  }
  add_script(lines);
  run_scripts();
  ASSERT_EQ(calls(0), expected);
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST_F(ShellTextTest, IsRefusedWhereALineOfSbatchCannotHoldIt) {
  for (const char* name : {"Ra\ntouch HACKED\n", "Ra\rtouch HACKED", "\n"}) {
    CampaignPlan plan = plan_with("a", 1);
    plan.output = name;
    EXPECT_THAT(refusal([&] { slurm(plan, "none"); }),
                testing::AllOf(HasSubstr("--output: found '"), HasSubstr("line end")))
        << name;
    EXPECT_THAT(refusal([&] { slurm(plan_with("a", 1), name); }), HasSubstr("--slurm"));
    fs::create_directories(name);
    fs::current_path(name);
    EXPECT_THAT(refusal([&] { slurm(plan_with("a", 1), "none"); }),
                HasSubstr("the current folder: found '"));
    fs::current_path(folder_ / "here");
  }
  CampaignPlan plan = plan_with("a", 1);
  plan.output = "a\\b";
  EXPECT_THAT(refusal([&] { slurm(plan, "none"); }), HasSubstr("backslash"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
