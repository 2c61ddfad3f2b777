// Configurations side by side, pair by pair: medians, their ratio and whether it is larger than the
// noise. What comparisons of two directories and of the values of one input have in common.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "results/noise.h"
#include "results/table_builder.h"
#include "sftbench/results/compare.h"

namespace sftbench {

// Everything that makes two results measurements of the same thing, but inputs `without`.
std::string identity(const StoredResult& result, const std::set<std::string_view>& without = {});

// "8", "None", and "default" where the result has no such input.
std::string input_text(const StoredResult& result, std::string_view input);

// Adds a result to the samples of its configuration. Where they ended differently, the valid ones
// speak for it.
void add_sample(Repeats& repeats, const StoredResult& result);

struct Pair {
  Repeats row, partner;
};

struct Judgement {
  Scalar value, other;  // medians
  std::optional<RatioInterval> interval;
  std::string_view verdict;
};

class JudgedPairs {
 public:
  // `pairs` outlive this; a row stands in one of them.
  // InputError, with the nearest spelling, when valid pairs have no number under the property.
  JudgedPairs(const std::vector<Pair>& pairs, const CompareOptions& options);

  const Judgement& operator[](const Repeats& row) const { return judgements_.at(&row.first()); }
  const Repeats& partner(const Repeats& row) const { return *partners_.at(&row.first()); }

  // Columns of each row: the property, that of its partner, ratio, interval, samples, noise,
  // verdict.
  void columns(TableBuilder& builder) const;
  // "valid", or both: "valid, other OOM_GPU".
  Scalar status(TableBuilder& builder, const Repeats& row) const;
  // judged, higher, lower and mean_ratio.
  void count(Comparison& comparison) const;

 private:
  std::vector<Scalar> values(const Repeats& repeats);
  Judgement judge(const Repeats& a, const Repeats& b);
  RunSpreads spreads_of_all();
  void refuse_unknown_property() const;

  const std::vector<Pair>& pairs_;
  CompareOptions options_;
  Samples measured_, figures_;
  std::optional<RunSpread> spread_;
  std::unordered_map<const StoredResult*, const Repeats*> partners_;
  std::unordered_map<const StoredResult*, Judgement> judgements_;
};

}  // namespace sftbench
