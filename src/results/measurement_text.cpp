#include "results/measurement_text.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "sftbench/base/quantity_text.h"
#include "sftbench/measure/measured_properties.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/results/repeats.h"

namespace sftbench {
namespace {

// The value at `pointer`, e.g. "/mfu/value"; null where there is none.
Json at(const Json& json, const char* pointer) {
  return json.value(Json::json_pointer(pointer), Json());
}

std::string figure(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::optional<double> largest(const Json& list) {
  std::optional<double> most;
  for (const Json& value : list) {
    if (value.is_number()) most = std::max(most.value_or(0), value.get<double>());
  }
  return most;
}

bool uses_gpus(const Measurement& m) {
  const Json count = m.inputs.value("number_gpus", Json());
  return !count.is_number() || count.get<double>() > 0;
}

// "297 tokens/s, 3.44 s per step (median of 5 steps)".
std::string speed(const Measurement& m) {
  const Json rate = at(m.measured, "/train_tokens_per_second");
  if (!rate.is_number()) return {};
  std::string text = quantity_text(rate.get<double>()) + " tokens/s";
  const Json per_gpu = at(m.measured, "/train_tokens_per_gpu_per_second");
  if (uses_gpus(m) && per_gpu.is_number() && per_gpu != rate) {
    text += " (" + quantity_text(per_gpu.get<double>()) + " per GPU)";
  }
  std::vector<Scalar> seconds;
  for (const Json& step : at(m.extra, "/step_seconds")) {
    seconds.push_back(Scalar::number(step.get<double>()));
  }
  const Json warm_up = at(m.extra, "/warmup_steps");
  if (warm_up.is_number_integer() && warm_up.get<size_t>() < seconds.size()) {
    seconds.erase(seconds.begin(), seconds.begin() + warm_up.get<int64_t>());
  }
  if (seconds.empty()) return text;
  return text + ", " + figure("%.3g", *typical_value(seconds).as_number()) +
         " s per step (median of " + counted(seconds.size(), "step") + ")";
}

// "the rate is known within 0.8 %: 12 steps of 200 were measured".
std::string stopped(const Measurement& m) {
  const Json known = at(m.extra, "/stopped_when_known");
  if (!known.is_object()) return {};
  return "the rate is known within " + figure("%.2g", known.at("within_percent").get<double>()) +
         " %: " + counted(known.at("steps").get<size_t>(), "step") + " of " +
         std::to_string(known.at("planned_steps").get<int64_t>()) + " were measured";
}

// "forward 31 %, backward 55 %, optimizer 13 %" of a step, the largest shares as they follow each
// other.
std::string phases(const Measurement& m) {
  const Json seconds = at(m.extra, "/phase_seconds");
  if (!seconds.is_object()) return {};
  double whole = 0;
  for (const auto& [name, value] : seconds.items()) whole += value.get<double>();
  std::string text;
  for (const auto& [name, value] : seconds.items()) {
    const double percent = whole > 0 ? 100 * value.get<double>() / whole : 0;
    if (percent < 0.5) continue;
    text += (text.empty() ? "" : ", ") + name + figure(" %.0f %%", percent);
  }
  return text;
}

std::string loss_at(const Json& loss) {
  return loss.is_number() ? figure("%.4g", loss.get<double>()) : "not finite";
}

// "11.33 at the first step, 11.36 at the last".
std::string loss(const Measurement& m) {
  const Json losses = at(m.extra, "/loss");
  if (!losses.is_array() || losses.empty()) return {};
  if (losses.size() == 1) return loss_at(losses[0]);
  return loss_at(losses.front()) + " at the first step, " + loss_at(losses.back()) + " at the last";
}

// "loss 2.31, perplexity 10.1 (16 entries); the least loss is 2.3, after step 8".
std::string evaluation(const Measurement& m) {
  const Json found = at(m.extra, "/evaluation");
  if (!found.is_object()) return {};
  const double loss = found.at("loss").get<double>();
  std::string text = "loss " + figure("%.4g", loss) + ", perplexity " +
                     figure("%.4g", found.at("perplexity").get<double>()) + " at the end (" +
                     std::to_string(found.at("entries").get<int64_t>()) + " entries)";
  const double best = found.at("best_loss").get<double>();
  if (best >= loss) return text;
  return text + "; the least loss was " + figure("%.4g", best) + ", after step " +
         std::to_string(found.at("best_step").get<int64_t>());
}

std::string memory(const Measurement& m) {
  if (const auto device = largest(at(m.extra, "/memory_bytes/device_peak_allocated"))) {
    return bytes_text(*device) + " of a GPU at the peak";
  }
  const auto host = largest(at(m.extra, "/memory_bytes/host_peak_rss"));
  return host ? bytes_text(*host) + " of the host at the peak of a process" : std::string();
}

std::string mfu(const Measurement& m) {
  if (const Json value = at(m.extra, "/mfu/value"); value.is_number()) {
    return figure("%.1f %%", 100 * value.get<double>());
  }
  const Json reason = at(m.extra, "/mfu/reason");
  return reason.is_string() ? "none: " + reason.get<std::string>() : std::string();
}

std::string energy(const Measurement& m) {
  if (!m.extra.contains("gpu_energy_joules")) return {};
  double joules = 0;
  for (const Json& gpu : at(m.extra, "/gpu_energy_joules")) {
    if (gpu.is_number()) joules += gpu.get<double>();
  }
  if (joules > 0) return quantity_text(joules) + "J by GPUs";
  return uses_gpus(m) ? "none: the driver tells none" : "none: no GPU took part";
}

// "0.41 USD per million dataset tokens, 12.3 M of them in an hour, at 5.1 USD for each of 2 GPUs".
bool is_simulated(const Measurement& m) {
  return at(m.environment, "/backend") == kBackendSimulate;
}

std::string cost(const Measurement& m, const DevicePrices& prices) {
  const auto found = token_cost(prices, m);
  if (!found) return {};
  const auto gpus = static_cast<int64_t>(found->devices);
  const std::string devices = !uses_gpus(m) ? "the machine"
                              : gpus == 1   ? "the GPU"
                                            : "each of " + std::to_string(gpus) + " GPUs";
  return figure("%.4g ", found->per_million) + prices.currency() + " per million dataset tokens, " +
         quantity_text(found->tokens_per_hour) + " of them in an hour, at " +
         figure("%.4g ", found->device_hour) + prices.currency() + " an hour for " + devices +
         (is_simulated(m) ? ", simulated" : "");
}

// What of the data was not learned from, or may have been wrongly.
std::vector<std::string> data_warnings(const Measurement& m) {
  const auto count = [&m](const char* name) {
    const Json value = at(m.extra, (std::string("/data/") + name).c_str());
    return value.is_number_integer() ? value.get<int64_t>() : 0;
  };
  std::vector<std::string> warnings;
  if (const int64_t tokens = count("cut_tokens"); tokens > 0) {
    warnings.push_back("model_max_length leaves out " + std::to_string(tokens) + " of " +
                       counted(count("tokens"), "token") + ", of " +
                       std::to_string(count("cut_entries")) + " of " +
                       counted(count("entries"), "entry", "entries"));
  }
  if (const int64_t entries = count("entries_without_loss"); entries > 0)
    warnings.push_back("entries that bear no loss: " + std::to_string(entries));
  if (const int64_t steps = count("steps_without_loss"); steps > 0)
    warnings.push_back("steps without a position that bears loss: " + std::to_string(steps));
  if (const int64_t tokens = count("doubtful_tokens"); tokens > 0)
    warnings.push_back("tokens that bear loss and are doubtful: " + std::to_string(tokens));
  if (const Json remarks = at(m.extra, "/data/remarks"); remarks.is_array()) {
    for (const Json& remark : remarks) {
      warnings.push_back("in " + counted(remark.at("entries").get<int64_t>(), "entry", "entries") +
                         ", " + remark.at("what").get<std::string>());
    }
  }
  if (const Json unused = at(m.extra, "/data/unused"); unused.is_array() && !unused.empty())
    warnings.push_back(
        "columns, keys and roles that are not used: " + std::to_string(unused.size()) + " (log)");
  return warnings;
}

Table property_table(const Measurement& m, size_t& left_out) {
  Table table{{"property", "value", "unit"}, {}};
  for (const auto& [name, value] : m.measured.items()) {
    if (!uses_gpus(m) && name.rfind("gpu_", 0) == 0 && value == 0) {
      ++left_out;
    } else {
      table.rows.push_back({name, value, std::string(measured_unit(name))});
    }
  }
  return table;
}

}  // namespace

std::optional<TokenCost> token_cost(const DevicePrices& prices, const Measurement& m) {
  const Json rate = at(m.measured, "/dataset_tokens_per_second");
  const Json gpus = at(m.inputs, "/number_gpus"), model = at(m.inputs, "/gpu_model");
  if (!rate.is_number()) return {};
  return token_cost(prices, model.is_string() ? model.get<std::string>() : std::string(),
                    gpus.is_number() ? gpus.get<double>() : 1, rate.get<double>());
}

std::string measurement_text(const Measurement& m, const DevicePrices& prices) {
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    text += name;
    text += std::string(12 - name.size(), ' ') + value + "\n";
  };
  if (is_simulated(m)) line("simulated", "nothing was trained, and no figure was measured");
  line("experiment", m.experiment_id);
  line("entity", m.entity_id);
  std::string status(to_string(m.status));
  if (m.reason) status += ": " + std::string(to_string(m.reason->code)) + ": " + m.reason->message;
  line("status", status);
  if (m.reason) {
    line("evidence", m.reason->evidence);
    line("log", m.reason->log);
  }
  if (m.status == Status::kValid) {
    line("speed", speed(m));
    line("cost", cost(m, prices));
    line("stopped", stopped(m));
    line("phases", phases(m));
    line("loss", loss(m));
    line("evaluation", evaluation(m));
    line("memory", memory(m));
    line("MFU", mfu(m));
    line("energy", energy(m));
    line("warning", busy_machine_note(at(m.extra, "/run_queue_wait_share")));
    for (const std::string& warning : data_warnings(m)) line("warning", warning);
  }
  if (m.measured.empty()) return text;
  size_t left_out = 0;
  text += "\n" + render(property_table(m, left_out), OutputFormat::kTable);
  if (left_out > 0) {
    text += "and " + std::to_string(left_out) + " of GPUs, all 0: no GPU took part\n";
  }
  return text;
}

}  // namespace sftbench
