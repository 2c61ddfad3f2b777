#include "engine/generation.h"

#include <algorithm>
#include <utility>

#include "engine/evaluation.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {
namespace {

using Ids = std::vector<int32_t>;

// Where the text that the model should write begins and ends.
struct Answer {
  size_t begin = 0, end = 0;
};

Answer answer_of(const EncodedEntry& entry) {
  const size_t length = entry.input_ids.size();
  const auto bears_loss = [&entry](size_t i) {
    return entry.labels.empty() ? static_cast<int32_t>(i) >= entry.loss_begin
                                : entry.labels[i] != kIgnoredLabel;
  };
  Answer answer;
  while (answer.begin < length && !bears_loss(answer.begin)) ++answer.begin;
  answer.end = answer.begin;
  while (answer.end < length && bears_loss(answer.end)) ++answer.end;
  // A token in front of all, as BOS, asks nothing.
  if (answer.begin <= 1 && answer.end == length) answer.begin = length / 2;
  return answer;
}

Ids part(const Ids& ids, size_t begin, size_t end) {
  return {ids.begin() + static_cast<std::ptrdiff_t>(begin),
          ids.begin() + static_cast<std::ptrdiff_t>(end)};
}

std::set<int32_t> ends_of(const Json& hf_config, const Tokenizer& tokenizer) {
  std::set<int32_t> ends;
  if (const auto eos = tokenizer.token_id(tokenizer.special_tokens().eos)) ends.insert(*eos);
  const Json given = hf_config.value("eos_token_id", Json());
  for (const Json& id : given.is_array() ? given : Json::array({given})) {
    if (id.is_number_integer()) ends.insert(id.get<int32_t>());
  }
  return ends;
}

// Beyond the length of pre-training LongRoPE turns all positions by other angles, those before,
// too.
int64_t most_positions(const ModelConfig& model) {
  return model.rotary && model.rope.type == RopeType::kLong
             ? model.rope.original_max_position_embeddings
             : model.max_position_embeddings;
}

}  // namespace

GenerationRows generation_rows(const TrainingJob& job, const EvaluationData& data,
                               const Tokenizer& tokenizer, const ModelConfig& model,
                               int64_t virtual_tokens) {
  GenerationRows rows;
  rows.ends = ends_of(job.model.hf_config, tokenizer);
  rows.max_new_tokens = job.evaluation.max_new_tokens;
  rows.most_positions = most_positions(model) - virtual_tokens;
  for (const int64_t index : data.generated) {
    const EncodedEntry entry = data.dataset->entry(index);
    const Answer answer = answer_of(entry);
    if (answer.begin == 0 || answer.begin == entry.input_ids.size()) continue;
    if (static_cast<int64_t>(answer.begin) > rows.most_positions) {
      throw RunError(ReasonCode::kUnsupported,
                     "--generate: entry " + std::to_string(index) +
                         " of the held-out data begins with " + std::to_string(answer.begin) +
                         " tokens; expected at most " + std::to_string(rows.most_positions));
    }
    rows.prompts.push_back(part(entry.input_ids, 0, answer.begin));
    GeneratedText& text = rows.texts.emplace_back();
    text.prompt = tokenizer.decode(rows.prompts.back());
    text.expected = tokenizer.decode(part(entry.input_ids, answer.begin, answer.end));
  }
  return rows;
}

Generation::Generation(GenerationRows rows, std::shared_ptr<const Tokenizer> tokenizer,
                       CausalLm& model, ParallelParameters& parameters, Communicator& world,
                       std::unique_ptr<LayerRunner> runner, torch::Device device)
    : rows_(std::move(rows)),
      tokenizer_(std::move(tokenizer)),
      model_(model),
      parameters_(parameters),
      world_(world),
      runner_(std::move(runner)),
      device_(device) {}

// Positions `first` to `first + count` of all rows, of which the shorter ones have ended.
torch::Tensor Generation::next_tokens(const std::vector<Ids>& rows, int64_t first, int64_t count,
                                      const std::shared_ptr<DecodingState>& state) {
  const auto batch = static_cast<int64_t>(rows.size());
  torch::Tensor ids = torch::zeros({batch, count}, torch::kInt64);
  auto at = ids.accessor<int64_t, 2>();
  for (int64_t row = 0; row < batch; ++row) {
    const Ids& of_row = rows[static_cast<size_t>(row)];
    for (int64_t i = 0; i < count && first + i < std::ssize(of_row); ++i)
      at[row][i] = of_row[static_cast<size_t>(first + i)];
  }
  TokenRows pass(ids.to(device_));
  pass.state = state;
  parameters_.begin_evaluation();
  torch::Tensor next = model_.likeliest_next(pass, *runner_);
  // One rank decides: roundings may differ from rank to rank.
  if (world_.world_size() > 1) {
    if (world_.rank() != 0) next.zero_();
    world_.all_reduce_now(next);
  }
  return next.cpu();
}

void Generation::write(std::string GeneratedText::*by_the_model) {
  std::vector<Ids> rows = rows_.prompts;
  const auto shorter = [](const Ids& a, const Ids& b) { return a.size() < b.size(); };
  const auto state = std::make_shared<DecodingState>();
  std::vector<bool> ended(rows.size(), false);
  int64_t first = 0;
  int64_t count = std::ssize(*std::min_element(rows.begin(), rows.end(), shorter));
  while (std::find(ended.begin(), ended.end(), false) != ended.end()) {
    const torch::Tensor next = next_tokens(rows, first, count, state);
    first += count;
    count = 1;
    for (size_t row = 0; row < rows.size(); ++row) {
      if (ended[row] || std::ssize(rows[row]) > first) continue;  // over, or still in its prompt
      const auto token = static_cast<int32_t>(next[static_cast<int64_t>(row)].item<int64_t>());
      ended[row] = rows_.ends.contains(token);
      if (!ended[row]) rows[row].push_back(token);
      const int64_t written = std::ssize(rows[row]) - std::ssize(rows_.prompts[row]);
      if (written >= rows_.max_new_tokens || std::ssize(rows[row]) >= rows_.most_positions)
        ended[row] = true;
    }
  }
  parameters_.end_evaluation();
  for (size_t row = 0; row < rows.size(); ++row) {
    rows_.texts[row].*by_the_model =
        tokenizer_->decode(part(rows[row], rows_.prompts[row].size(), rows[row].size()));
  }
}

}  // namespace sftbench
