// sftbench dataset text [ID], sftbench dataset vision [ID].
#include <filesystem>
#include <vector>

#include "cli/dataset_commands.h"
#include "cli/number_checks.h"
#include "cli/progress.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/data/dataset_catalog.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// What both kinds of dataset have.
struct GeneratorArguments {
  std::string id, output, seed_path;
  int64_t gpus = 8, batch_size = 128, accumulation = 4;
  int64_t own_entries = 0;              // 0: of the three above
  std::vector<const CLI::Option*> own;  // describe a dataset that has no name

  int64_t entries() const {
    return own_entries > 0 ? own_entries : gpus * batch_size * accumulation;
  }
};

struct TextArguments : GeneratorArguments {
  TextGeneratorOptions generator;
};

struct VisionArguments : GeneratorArguments {
  VisionGeneratorOptions generator;
};

// As the generators.
constexpr uint64_t kMostTokens = 100'000'000;
constexpr uint64_t kMostPixels = 8192;

// --- the options ---------------------------------------------------------------------------------

template <typename Value>
CLI::Option* add_own(CLI::App& command, GeneratorArguments& arguments, const char* names,
                     Value& value, const char* help) {
  CLI::Option* option = command.add_option(names, value, help)->capture_default_str();
  arguments.own.push_back(option);
  return option;
}

void add_common_options(CLI::App& command, GeneratorArguments& arguments,
                        const std::string& format) {
  command.add_option("ID", arguments.id, "a named dataset, made the same each time");
  command.add_option(
      "-o,--output", arguments.output,
      format + " file to write (default for a named dataset: in the user's data directory)");
  add_own(command, arguments, "-i,--input", arguments.seed_path,
          "seed text (default: the one that ships)");
}

template <typename Arguments>
void add_word_options(CLI::App& command, Arguments& arguments) {
  auto& generator = arguments.generator;
  add_own(command, arguments, "--tokens-input", generator.input_tokens,
          "tokens of each entry's input, about")
      ->transform(whole_number(0, kMostTokens));
  add_own(command, arguments, "--tokens-output", generator.output_tokens,
          "tokens of each entry's output, about")
      ->transform(whole_number(0, kMostTokens));
  add_own(command, arguments, "--words-per-token", generator.words_per_token,
          "words that stand for one token")
      ->check(number(0.001, 1000));
}

void add_entry_options(CLI::App& command, GeneratorArguments& arguments) {
  const CLI::Validator counts = whole_number(1, 100'000);
  CLI::Option* entries = command.add_option("--entries", arguments.own_entries, "how many entries")
                             ->transform(whole_number(1, 100'000'000))
                             ->option_text("N");
  arguments.own.push_back(entries);
  // Instead of CLI11's, which would say of each of them what it excludes.
  const auto text = [](int64_t value) { return "INT=" + std::to_string(value); };
  add_own(command, arguments, "--num-max-gpus", arguments.gpus,
          "without --entries: as many as GPUs x batch size x accumulation steps need")
      ->transform(counts)
      ->excludes(entries)
      ->option_text(text(arguments.gpus));
  add_own(command, arguments, "--num-max-batch-size", arguments.batch_size, "per GPU")
      ->transform(counts)
      ->excludes(entries)
      ->option_text(text(arguments.batch_size));
  add_own(command, arguments, "--num-gradient-accumulation-steps", arguments.accumulation,
          "micro-batches per step")
      ->transform(counts)
      ->excludes(entries)
      ->option_text(text(arguments.accumulation));
}

// --- what they mean ------------------------------------------------------------------------------

void refuse_own_options(const GeneratorArguments& arguments) {
  for (const CLI::Option* option : arguments.own) {
    if (option->count() == 0) continue;
    throw InputError(
        {{.file = {},
          .line = 0,
          .key = option->get_name(),
          .message = "the named dataset '" + arguments.id + "' is always made the same way",
          .expected = "either a dataset's name or options of your own",
          .nearest = {}}});
  }
}

fs::path output_of(const GeneratorArguments& arguments) {
  if (fs::is_directory(arguments.output)) {  // not when all the work is done
    throw InputError({{.file = {},
                       .line = 0,
                       .key = "--output",
                       .message = arguments.output + " is a folder",
                       .expected = "a file to write",
                       .nearest = {}}});
  }
  if (!arguments.output.empty()) return arguments.output;
  if (!arguments.id.empty()) return default_dataset_path(named_dataset(arguments.id));
  throw InputError(
      {{.file = {},
        .line = 0,
        .key = "--output",
        .message = "nothing says where the dataset goes",
        .expected = "a file to write, or the name of a dataset ('sftbench dataset list')",
        .nearest = {}}});
}

// A generator of the dataset that the arguments name, or describe.
template <typename Generator, typename Arguments>
Generator generator_of(const Arguments& arguments,
                       Generator (*named_generator)(const NamedDataset&)) {
  if (!arguments.id.empty()) {
    const NamedDataset& dataset = named_dataset(arguments.id);
    refuse_own_options(arguments);
    return named_generator(dataset);
  }
  auto options = arguments.generator;
  options.entries = arguments.entries();
  const fs::path seed =
      arguments.seed_path.empty() ? default_seed_path() : fs::path(arguments.seed_path);
  return Generator(read_file(seed), seed.string(), options);
}

void announce(const fs::path& output, int64_t entries) {
  spdlog::info("writing {} to {}", counted(entries, "entry", "entries"), output.string());
}

void report(const fs::path& output, int64_t entries, double begin_s) {
  spdlog::info("{}, {}B, {:.2f} s", counted(entries, "entry", "entries"),
               quantity_text(static_cast<double>(fs::file_size(output))),
               steady_seconds() - begin_s);
  std::cout << terminal_line(output.string()) << "\n";
}

void run_text(const TextArguments& arguments, bool progress_shown,
              const InterruptNote& interrupts) {
  const fs::path output = output_of(arguments);
  TextGenerator generator = generator_of<TextGenerator>(arguments, named_text_generator);
  const int64_t entries = generator.options().entries;
  announce(output, entries);
  const double begin_s = steady_seconds();
  const auto progress = watched(interrupts, progress_shown, "entries written", entries);
  write_text_dataset(std::move(generator), output, [&](int64_t done, int64_t) { progress(done); });
  report(output, entries, begin_s);
}

void run_vision(const VisionArguments& arguments, bool progress_shown,
                const InterruptNote& interrupts) {
  const fs::path output = output_of(arguments);
  VisionGenerator generator = generator_of<VisionGenerator>(arguments, named_vision_generator);
  const std::unique_ptr<ParquetLibrary> parquet = load_parquet_library();
  const int64_t entries = generator.options().entries;
  announce(output, entries);
  const double begin_s = steady_seconds();
  write_vision_dataset(std::move(generator), output, *parquet,
                       watched(interrupts, progress_shown, "entries written", entries));
  report(output, entries, begin_s);
}

template <typename Arguments>
void run_when_called(CLI::App& command, std::shared_ptr<Arguments> arguments, const CLI::App& app,
                     int& exit_code, void (*run)(const Arguments&, bool, const InterruptNote&)) {
  command.callback([arguments, &app, &exit_code, run] {
    exit_code = run_interruptibly("nothing was written", [&](const InterruptNote& interrupts) {
      run(*arguments, shows_progress(app), interrupts);
    });
  });
}

}  // namespace

void add_generator_commands(CLI::App& parent, const CLI::App& app, int& exit_code) {
  CLI::App* text = parent.add_subcommand("text", "generate a synthetic text dataset");
  const auto text_arguments = std::make_shared<TextArguments>();
  add_common_options(*text, *text_arguments, "JSONL");
  add_word_options(*text, *text_arguments);
  TextGeneratorOptions& frame = text_arguments->generator;
  add_own(*text, *text_arguments, "--response-delimiter", frame.response_delimiter,
          "text between input and output")
      ->default_str(R"("\n\n### Response:")");
  add_own(*text, *text_arguments, "--prompt", frame.prompt, "text before the input")
      ->default_str(R"("### Input:\n")");
  add_entry_options(*text, *text_arguments);
  text->footer(R"(
Examples:
  sftbench dataset text news-tokens-16384plus-entries-4096 -o news.jsonl
  sftbench dataset text --entries 512 --tokens-input 900 -o mine.jsonl)");
  run_when_called(*text, text_arguments, app, exit_code, run_text);

  CLI::App* vision =
      parent.add_subcommand("vision", "generate a synthetic dataset of chats about a picture");
  const auto vision_arguments = std::make_shared<VisionArguments>();
  add_common_options(*vision, *vision_arguments, "Parquet");
  add_word_options(*vision, *vision_arguments);
  VisionGeneratorOptions& image = vision_arguments->generator;
  add_own(*vision, *vision_arguments, "--image-width", image.image_width, "pixels")
      ->transform(whole_number(1, kMostPixels));
  add_own(*vision, *vision_arguments, "--image-height", image.image_height, "pixels")
      ->transform(whole_number(1, kMostPixels));
  add_entry_options(*vision, *vision_arguments);
  vision->footer(R"(
Example:
  sftbench dataset vision --entries 64 --image-width 384 --image-height 384 \
    -o pictures.parquet)");
  run_when_called(*vision, vision_arguments, app, exit_code, run_vision);
}

}  // namespace sftbench
