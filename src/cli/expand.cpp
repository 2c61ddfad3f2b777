#include "sftbench/cli/expand.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "sftbench/cli/selection.h"
#include "sftbench/results/table.h"
#include "sftbench/space/validity.h"

namespace sftbench {
namespace {

// Rows are rendered and written in blocks, so that a space of millions needs no memory and starts
// at once.
constexpr size_t kBlockRows = 5000;

// Writes blocks of rows as one document.
class TableStream {
 public:
  explicit TableStream(OutputFormat format) : format_(format) {}

  void write(const Table& block) {
    std::string text = render(block, format_);
    if (format_ == OutputFormat::kJson) {
      // "[\n" rows "\n]\n": the brackets belong to the whole document.
      text = text.substr(2, text.size() - 5);
      text.insert(0, blocks_ == 0 ? "[\n" : ",\n");
    } else if (format_ == OutputFormat::kCsv && blocks_ > 0) {
      text.erase(0, text.find('\n') + 1);
    }
    ++blocks_;
    std::fwrite(text.data(), 1, text.size(), stdout);
  }

  void finish() const {
    if (format_ == OutputFormat::kJson) std::fputs("\n]\n", stdout);
  }

 private:
  OutputFormat format_;
  size_t blocks_ = 0;
};

class Expansion {
 public:
  Expansion(const Space& space, OutputFormat format)
      : space_(space), format_(format), stream_(format) {
    several_experiments_ = space.experiments.size() > 1;
    people_ = format == OutputFormat::kTable || format == OutputFormat::kMarkdown;
    block_.columns = {"index", "verdict", "entity_id", "reason"};
    if (!people_) block_.columns = {"index", "verdict", "entity_id", "experiment_id", "reason"};
    if (people_ && several_experiments_)
      block_.columns.insert(block_.columns.begin() + 3, "experiment_id");
  }

  void add(const Entity& entity) {
    for (const ExperimentReference& reference : space_.experiments) {
      const MeasurementRequest request = make_request(entity, reference);
      const std::vector<Violation> violations = validate(request.inputs, Catalog::shipped().models);
      std::vector<Json> row = {entity.index, violations.empty() ? "valid" : "invalid",
                               request.entity_id};
      if (!people_ || several_experiments_) row.emplace_back(request.experiment_id);
      row.push_back(reason(violations));
      block_.rows.push_back(std::move(row));
      (violations.empty() ? valid_ : invalid_)++;
    }
    if (block_.rows.size() >= kBlockRows) flush();
  }

  void finish() {
    if (!block_.rows.empty()) flush();
    stream_.finish();
    spdlog::info("{} valid, {} invalid", valid_, invalid_);
  }

 private:
  // All violations; the first one is the reason that a result file would give.
  Json reason(const std::vector<Violation>& violations) const {
    const bool structured = format_ == OutputFormat::kJson || format_ == OutputFormat::kJsonLines;
    if (structured) {
      Json list = Json::array();
      for (const Violation& v : violations)
        list.push_back({{"code", to_string(v.code)}, {"message", v.message}});
      return list;
    }
    std::string text;
    for (const Violation& v : violations) {
      text += (text.empty() ? "" : "; ") + std::string(to_string(v.code)) + ": " + v.message;
    }
    return text;
  }

  void flush() {
    stream_.write(block_);
    block_.rows.clear();
  }

  const Space& space_;
  OutputFormat format_;
  TableStream stream_;
  Table block_;
  bool several_experiments_ = false;
  bool people_ = false;
  int64_t valid_ = 0;
  int64_t invalid_ = 0;
};

void expand(const Selection& selection, const std::string& format) {
  const OutputFormat output = output_format(format);
  const LoadedSpace loaded = load_space(selection);
  for (const Diagnostic& warning : loaded.warnings) spdlog::warn("{}", to_string(warning));
  const std::optional<int64_t> chosen = chosen_entity(loaded.space, selection);
  Expansion expansion(loaded.space, output);
  const int64_t first = chosen.value_or(0);
  const int64_t end = chosen ? *chosen + 1 : loaded.space.entity_count();
  for (int64_t i = first; i < end; ++i) expansion.add(loaded.space.entity(i));
  expansion.finish();
}

}  // namespace

void add_expand_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("expand", "list the entities of a space with verdict and reason");
  const auto selection = std::make_shared<Selection>();
  const auto format = std::make_shared<std::string>("table");
  add_selection_options(*command, *selection);
  command->add_option("--format", *format, "table, json, jsonl, csv or md")->capture_default_str();
  command->callback([selection, format, &exit_code] {
    expand(*selection, *format);
    exit_code = 0;
  });
}

}  // namespace sftbench
