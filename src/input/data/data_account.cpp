#include "sftbench/data/data_account.h"
#include "sftbench/base/quantity_text.h"

#include <cmath>

namespace sftbench {
namespace {

constexpr size_t kMostNamed = 20;

std::string entries_text(int64_t count) {
  return counted(count, "entry", "entries");
}

std::string percent_of(int64_t part, int64_t whole) {
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  const auto rounded = std::llround(percent);
  return rounded == 0 ? "below 1 %" : std::to_string(rounded) + " %";
}

}  // namespace

void DataAccount::add(const DataAccount& other) {
  entries += other.entries;
  tokens += other.tokens;
  cut_entries += other.cut_entries;
  cut_tokens += other.cut_tokens;
  without_loss += other.without_loss;
  without_loss_by_cut += other.without_loss_by_cut;
  doubtful_entries += other.doubtful_entries;
  doubtful_tokens += other.doubtful_tokens;
  for (const auto& [what, count] : other.unused) unused[what] += count;
  for (const auto& [what, count] : other.remarks) remarks[what] += count;
}

std::vector<std::string> warnings_about(const DataAccount& account, bool seeks_response) {
  std::vector<std::string> warnings;
  size_t named = 0;
  for (const auto& [what, count] : account.unused) {
    if (++named > kMostNamed) {
      warnings.push_back(std::to_string(account.unused.size() - kMostNamed) +
                         " more columns and keys are not used");
      break;
    }
    warnings.push_back(what + " of " + entries_text(count) + " is not used");
  }
  for (const auto& [what, count] : account.remarks)
    warnings.push_back("in " + entries_text(count) + ", " + what);
  if (account.cut_entries > 0) {
    warnings.push_back(
        entries_text(account.cut_entries) + " of " + std::to_string(account.entries) +
        (account.cut_entries == 1 ? " is" : " are") +
        " cut at model_max_length, which leaves out " + std::to_string(account.cut_tokens) +
        " of " + counted(account.tokens, "token") + " (" +
        percent_of(account.cut_tokens, account.tokens) + ")");
  }
  const int64_t without = account.without_loss - account.without_loss_by_cut;
  if (without > 0) {
    warnings.push_back(
        entries_text(without) + (without == 1 ? " bears" : " bear") + " no loss: " +
        (seeks_response ? "the response template is not in them" : "nothing in them bears it"));
  }
  if (account.without_loss_by_cut > 0) {
    warnings.push_back(entries_text(account.without_loss_by_cut) +
                       (account.without_loss_by_cut == 1 ? " bears" : " bear") +
                       " no loss: what bears it stands behind model_max_length");
  }
  if (account.doubtful_entries > 0) {
    warnings.push_back("in " + entries_text(account.doubtful_entries) + ", " +
                       counted(account.doubtful_tokens, "token that bears loss is doubtful",
                               "tokens that bear loss are doubtful") +
                       ": the chat template renders beginnings of these "
                       "conversations otherwise, and masks are those of fms-hf-tuning");
  }
  return warnings;
}

Json to_json(const DataAccount& account) {
  const auto listed = [](const std::map<std::string, int64_t>& counts) {
    Json list = Json::array();
    for (const auto& [what, count] : counts) {
      if (list.size() == 1000) break;  // an entry may have 80,000 keys
      list.push_back({{"what", what}, {"entries", count}});
    }
    return list;
  };
  return {{"entries", account.entries},
          {"tokens", account.tokens},
          {"cut_entries", account.cut_entries},
          {"cut_tokens", account.cut_tokens},
          {"entries_without_loss", account.without_loss},
          {"entries_without_loss_by_cut", account.without_loss_by_cut},
          {"doubtful_entries", account.doubtful_entries},
          {"doubtful_tokens", account.doubtful_tokens},
          {"unused", listed(account.unused)},
          {"remarks", listed(account.remarks)}};
}

}  // namespace sftbench
