#include "cli/first_screens.h"

#include <map>

namespace sftbench {
namespace {

const std::map<std::string, std::string_view>& first_screens() {
  static const std::map<std::string, std::string_view> kScreens = {
      {"", R"(Measure what fine-tuning a language model costs, a given way on given devices.

  sftbench run --model DIR --data FILE         train on your data, and see its
                                               speed, memory, loss and cost
  sftbench sweep SPACE                         measure every configuration
  sftbench report DIR                          compare what was measured
  sftbench recommend --model NAME --entries N  find the GPUs to rent
  sftbench predict SPACE                       time and memory without a run
  sftbench frontier SPACE --over batch_size    find the largest batch that fits
  sftbench doctor                              what this machine can run

Further commands: expand, status, explain, import, dataset, weights, models,
gpus, experiments, arguments, completion.
sftbench COMMAND -h shows the main options of one, --help all of them.
)"},
      {"run", R"(Train one configuration, and print its speed, memory, loss and cost.

  sftbench run --model DIR|ID --data FILE   your model on your data
  sftbench run SPACE --entity N             an entity of a space (ado's format)
  sftbench run --arguments FILE             the arguments of another program

  --set PROPERTY=VALUE     such as batch_size=4 or number_gpus=8
  --experiment METHOD      full (the default), lora, qlora, gptq-lora or pt
  --weights random         draw the weights: nothing is fetched
  --ranks N, --threads N   processes and threads on CPUs
  --price USD              of an hour of a GPU: results have the cost of tokens
  --save-model-dir DIR     keep what was trained
  -o, --output DIR         folder of the results (results)
  --dry-run                print the training job, and stop

Learning rate, LoRA, form of the data, evaluation: sftbench help arguments
Everything: sftbench run --help
)"},
      {"sweep", R"(Measure every entity of a space. Started again, a sweep goes on where it ended.

  sftbench sweep SPACE                          measure all of it
  sftbench sweep SPACE --on slurm --workers 8   on a cluster

  --dry-run                list what would be measured
  --set PROPERTY=VALUE     replace a domain
  --jobs N|auto            measurements at a time on this machine
  --until 2h, --limit N    end after a time, or so many cells
  --repeats N              samples of each valid cell
  --operation FILE         ado's random_walk, or a search (ray_tune)
  --worker                 share the space with other processes on one folder
  --timeout DURATION       of a measurement
  -o, --output DIR         folder of the results (results)

sftbench status DIR --watch follows it. sftbench report DIR compares.
Everything: sftbench sweep --help
)"},
      {"status", R"(Tell how far a campaign is, and who measures what.

  sftbench status DIR                       every result of a folder
  sftbench status DIR SPACE                 a space: how many cells wait, too
  sftbench status DIR SPACE --watch         until the last of them has ended

  --interval DURATION      time between two looks of --watch (2s)
  --format json            for programs; also jsonl, csv, md
  --set PROPERTY=VALUE     as the sweep had it, and its other options

Everything: sftbench status --help
)"},
      {"expand", R"(List the entities of a space, each with its verdict and its reason.

  sftbench expand SPACE
  sftbench expand --experiment lora --set model_name=llama3.1-8b \
    --set number_gpus=1,2 --set batch_size=8,16 --set model_max_length=2048

  --count                  how many are valid, and why others are not
  --limit N                so many rows
  --set PROPERTY=VALUE     replace a domain
  --format json            for programs; also jsonl, csv, md

Everything: sftbench expand --help
)"},
      {"predict", R"(Say what configurations would take, by arithmetic: time, memory, verdict.

  sftbench predict SPACE
  sftbench predict --experiment lora --set model_name=llama3.1-8b \
    --set gpu_model=H100 --set number_gpus=1 --set batch_size=8 \
    --set model_max_length=2048

  --verdict fits           only these rows; --sort step_s orders them
  --evidence DIR           results that you have: they sharpen the prediction
  --stack NAME             what trains: sftbench, transformers, torch, ...
  --exact                  memory as libtorch's allocator would have it, on a
                           phantom GPU (a build for GPUs)
  --set PROPERTY=VALUE     replace a domain

sftbench recommend chooses the GPUs. Everything: sftbench predict --help
)"},
      {"recommend", R"(Find the GPUs that train a model on your data: the cheapest, and the fastest.

  sftbench recommend --model llama3.1-8b --data FILE
  sftbench recommend --model llama3.1-8b --entries 50000 --length 1024

  --method full|lora|...   how it is tuned (lora)
  --deadline 6h            it ends in time
  --budget USD             it costs at most that much
  --gpus H100,L40S         the GPUs that you can have
  --max-gpus N             at most so many (8)
  --own N                  so many of them are yours: no price is asked
  --epochs X, --batch N    passes over the data; entries of a step
  --set PROPERTY=VALUE     how it trains: r=16, optim=adafactor
  --stack NAME             what trains it (transformers)
  --prices FILE            your prices

Everything: sftbench recommend --help
)"},
      {"frontier", R"(Find the largest value that fits, with few short runs.

  sftbench frontier --over batch_size SPACE
  sftbench frontier --over model_max_length --model DIR --data FILE

  --from N, --to N         where to look
  --steps N                of each run
  --no-guess               do not begin at the predicted edge
  --set PROPERTY=VALUE     what else holds
  -o, --output DIR         folder of the results

Everything: sftbench frontier --help
)"},
      {"report", R"(Show what was measured: a table, ado's CSV, a page, a comparison.

  sftbench report DIR                           what came out
  sftbench report DIR --format html -o FILE     one page with charts
  sftbench report DIR --format csv              ado's columns, for pandas
  sftbench report DIR --vary optim              what one input changes
  sftbench report AFTER --compare BEFORE        did it get faster?

  --price USD              of an hour of a GPU: what tokens cost
  --status valid,failed    only these outcomes
  --experiment NAME        only this one
  --property NAME          what --vary and --compare compare
  --wide                   all inputs and figures

Everything: sftbench report --help
)"},
      {"explain", R"(Say why a measurement is what it is: its parts beside the predicted ones.

  sftbench explain results/EXPERIMENT/KEY.json

  --evidence DIR           results of the same machine, which sharpen it
  --stack NAME             what trained: sftbench or fms-hf-tuning
  --format json            for programs

Everything: sftbench explain --help
)"},
      {"import", R"(Take measurements that others made as evidence for predictions.

  sftbench import entities.csv --as ado
  sftbench import table.csv --as csv --map model_name=model \
    --map tokens_per_second=rate --set experiment=lora

  --stack NAME             what was measured: fms-hf-tuning or sftbench
  -o, --output DIR         results folder that gets them (results)

Everything: sftbench import --help
)"},
      {"dataset", R"(Make, fetch, count and show datasets.

  sftbench dataset show FILE --tokenizer DIR -n 1   what a run sees
  sftbench dataset count FILE --tokenizer DIR       how long entries are
  sftbench dataset fetch ORG/NAME::SPLIT            from the hub
  sftbench dataset list                             synthetic ones by name
  sftbench dataset text ID -o FILE                  make one of them
  sftbench dataset vision                           make one with pictures

Everything: sftbench dataset COMMAND -h
)"},
      {"dataset text", R"(Make a synthetic text dataset.

  sftbench dataset text ID -o FILE              one of `sftbench dataset list`
  sftbench dataset text --entries N -o FILE

  --tokens-input N         tokens of each entry's input, about (10)
  --tokens-output N        tokens of its output, about (18240)
  -i, --input FILE         seed text

Everything: sftbench dataset text --help
)"},
      {"dataset vision", R"(Make a synthetic dataset of chats about a picture.

  sftbench dataset vision -o DIR

Everything: sftbench dataset vision --help
)"},
      {"dataset count", R"(Count the tokens of a dataset.

  sftbench dataset count FILE|DIR|ID --tokenizer DIR

  --model-max-length N     count each entry up to this many
  --template TEXT          make an entry's text of its fields
  --chat-template FILE     another template of conversations
  --text-field NAME        field with the text

Everything: sftbench dataset count --help
)"},
      {"dataset show", R"(Show entries as a run sees them: tokens, labels, and what bears loss.

  sftbench dataset show FILE|DIR|ID --tokenizer DIR -n 1

  --first N                entry to begin at
  --model-max-length N     where entries are cut
  --template TEXT          make an entry's text of its fields
  --chat-template FILE     another template of conversations
  --mask assistant|fms     what of a conversation bears loss

Everything: sftbench dataset show --help
)"},
      {"dataset fetch", R"(Download datasets of the hub into a Hugging Face cache.

  sftbench dataset fetch ORG/NAME[:CONFIG[:SPLIT]]

  -o, --output HF_HOME     where to (HF_HOME, else ~/.cache/huggingface)
  --revision NAME          another one than main

HF_TOKEN has the token of gated data.
Everything: sftbench dataset fetch --help
)"},
      {"models", R"(List the models that are known, or show one in full.

  sftbench models                           all of them
  sftbench models NAME                      one, with the source of each fact
  sftbench models qwen                      those that have it in a cell

  --fits GPU               those that one such GPU trains, by prediction
  --method full|lora|...   how it trains them (lora)
  --length N               tokens of their rows (2048)
  --family NAME            those of one family
  --max-parameters 8B      those with at most so many
  --sort COLUMN            smallest first

Everything: sftbench models --help
)"},
      {"weights", R"(Fetch, verify and merge the weights of models.

  sftbench weights fetch NAME|ORG/NAME          into a Hugging Face cache
  sftbench weights check NAME                   hashes of what is there
  sftbench weights merge ADAPTER -o DIR         an adapter into its model

Everything: sftbench weights COMMAND --help
)"},
      {"weights fetch",
       R"(Download models into a Hugging Face cache. An interrupted download goes on.

  sftbench weights fetch NAME|ORG/NAME[@REVISION]

  -i, --input FILE         models.yaml that lists them
  -o, --output HF_HOME     where to (HF_HOME, else ~/.cache/huggingface)
  --endpoint URL           another hub

HF_TOKEN has the token of gated models.
Everything: sftbench weights fetch --help
)"},
      {"weights check", R"(Compare the weights that are here with the hub's hashes.

  sftbench weights check NAME|ORG/NAME

  --remove                 delete what is damaged, so that fetch gets it again

Everything: sftbench weights check --help
)"},
      {"weights merge", R"(Add a LoRA adapter to the model that it was trained on.

  sftbench weights merge ADAPTER -o DIR

  --model DIR|ID           the base, where the one that it names is not here

Everything: sftbench weights merge --help
)"},
  };
  return kScreens;
}

struct Heading {
  const char* text;
  std::initializer_list<const char*> options;
};

// What no heading has stays among "Options".
const Heading kHeadings[] = {
    {"What is trained",
     {"--model", "--experiment", "--method", "--set", "--entity", "--arguments", "--deepspeed",
      "--config", "--ado-ids", "--weights", "--padding", "--job", "--fetch"}},
    {"How it is trained",
     {"--ranks", "--threads", "--gradient-sync", "--reduce-dtype", "--communication-timeout",
      "--largest-batch-first", "--stop-at-precision", "--backend", "--simulate"}},
    {"Several nodes", {"--launcher", "--hosts", "--hostfile"}},
    {"An engine",
     {"--on", "--workers", "--nodes", "--submit", "--slurm", "--kubernetes", "--ray-address",
      "--program", "--env"}},
    {"Cells of a sweep",
     {"--operation", "--seed", "--jobs", "--limit", "--repeats", "--until", "--worker", "--locking",
      "--lease", "--host-memory", "--max-retries", "--no-retry-failed", "--max-quick-failures",
      "--quick-failure"}},
    {"Limits of time", {"--timeout", "--stall-timeout"}},
    {"What is kept",
     {"--output", "--format", "--price", "--prices", "--track", "--trace", "--sample-period"}},
    {"Checkpoints and the trained model",
     {"--output-dir", "--logging-strategy", "--logging-steps", "--save-model-dir",
      "--checkpoint-dir", "--save-strategy", "--save-steps", "--save-total-limit",
      "--resume-from-checkpoint", "--load-best-model-at-end", "--generate", "--max-new-tokens"}},
    {"The machine that is predicted",
     {"--flops-per-s", "--attention-flops-per-s", "--element-gb-per-s", "--memory-gb-per-s",
      "--memory-gib", "--inside-gb-per-s", "--inside-latency-us", "--between-gb-per-s",
      "--between-latency-us", "--no-overlap", "--stack", "--evidence"}},
};

// Of a command with a space all headings, of one that predicts a machine that of the machine.
bool has_heading(const CLI::App& command, const Heading& heading) {
  return command.get_option_no_throw("--arguments") != nullptr ||
         (heading.options.begin()[0] == std::string_view("--flops-per-s") &&
          command.get_option_no_throw("--flops-per-s") != nullptr);
}

}  // namespace

std::string_view first_screen(const std::string& command) {
  const auto found = first_screens().find(command);
  return found == first_screens().end() ? std::string_view() : found->second;
}

void group_options(CLI::App& command) {
  for (const Heading& heading : kHeadings) {
    if (!has_heading(command, heading)) continue;
    for (const char* name : heading.options) {
      CLI::Option* option = command.get_option_no_throw(name);
      if (option != nullptr && option->get_group() == "Options") option->group(heading.text);
    }
  }
  // Taken there, since they belong to what a cell is, but nobody looks for them there.
  if (command.get_name() == "status") {
    for (CLI::Option* option : command.get_options())
      if (option->get_group() == kTrainingArguments) option->group("");
  }
  for (CLI::App* below : command.get_subcommands(nullptr)) group_options(*below);
}

}  // namespace sftbench
