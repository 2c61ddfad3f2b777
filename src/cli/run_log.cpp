#include "cli/run_log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "cli/log_format.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/shared_file.h"

namespace sftbench {
namespace {

// Results go on in a new folder where theirs vanished meanwhile, and so does the log.
OwnedFd make_log(const std::filesystem::path& path) {
  std::error_code none;
  std::filesystem::create_directories(path.parent_path(), none);
  return make_new_file(path, "write the log");
}

// spdlog's own file sink follows links.
class NewFileSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit NewFileSink(const std::filesystem::path& path) : file_(make_log(path)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    write_whole(file_.get(), {line.data(), line.size()});  // a full disk ends no measurement
  }
  void flush_() override {}

  OwnedFd file_;
};

}  // namespace

RunLog::RunLog(const std::filesystem::path& path) : RunLog(std::make_shared<NewFileSink>(path)) {
  auto& sinks = spdlog::default_logger()->sinks();
  debug_ = std::make_unique<spdlog::logger>("debug", sinks.begin(), sinks.end());
  debug_->set_level(spdlog::default_logger()->level());
  sinks.push_back(file_);
}

RunLog::RunLog() : RunLog(std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
  spdlog::default_logger()->sinks() = {file_};
}

RunLog::RunLog(spdlog::sink_ptr sink)
    : file_(std::move(sink)), logger_(std::make_unique<spdlog::logger>("run", file_)) {
  logger_->set_formatter(log_format("%Y-%m-%dT%H:%M:%S.%e %v"));
  logger_->flush_on(spdlog::level::trace);
}

RunLog::~RunLog() {
  auto& sinks = spdlog::default_logger()->sinks();
  sinks.erase(std::remove(sinks.begin(), sinks.end(), file_), sinks.end());
}

void RunLog::line(const std::string& kind, const std::string& text) const {
  logger_->info("{}: {}", kind, text);
  if (debug_) debug_->debug("{}: {}", kind, text);
}

void StepLog::on_train_begin(const TrainBegin& begin) {
  log_.line("begin",
            fmt::format("{}, {} parameters ({} trained), {}, padding {}, tokenizer {}, weights "
                        "in {:.2f} s, tokens in {:.2f} s",
                        counted(begin.total_steps, "step"), begin.parameters_total,
                        begin.parameters_trainable, begin.compute_dtype, begin.padding,
                        begin.tokenizer, begin.weights_seconds, begin.tokenize_seconds));
  if (!begin.resumed_from.empty()) {
    spdlog::info("resumed from {}, after step {}", begin.resumed_from, begin.resumed_step);
  }
  for (const std::string& warning : begin.warnings) spdlog::warn("{}", warning);
}

void StepLog::on_step_end(const StepEvent& event, TrainControl&) {
  log_.line("step",
            fmt::format("{} epoch {:.4f} loss {:.6f} grad_norm {:.6f} learning_rate {:.4e} "
                        "seconds {:.4f} padded_tokens {} dataset_tokens {}",
                        event.step, event.epoch, event.loss, event.grad_norm, event.learning_rate,
                        event.end_s - event.begin_s, event.tokens.padded, event.tokens.dataset));
}

void StepLog::on_evaluation(const EvaluationEvent& event) {
  spdlog::info("evaluation after step {}: loss {:.6f}, perplexity {:.4f}, {} in {:.2f} s",
               event.step, event.loss, std::exp(event.token_loss),
               counted(event.entries, "entry", "entries"), event.seconds);
}

void StepLog::on_train_end(const TrainEnd& end) {
  log_.line("end", counted(end.steps, "step"));
  for (size_t i = 0; i < end.generated.size(); ++i) {
    const GeneratedText& text = end.generated[i];
    spdlog::info("text {} of {}: {}", i + 1, end.generated.size(), json_text(text.prompt));
    spdlog::info("  held out: {}", json_text(text.expected));
    spdlog::info("  before:   {}", json_text(text.before));
    spdlog::info("  after:    {}", json_text(text.after));
  }
  for (const SavedFolder& folder : end.saved) {
    spdlog::info("saved {}: {} bytes in {:.2f} s, after step {}", folder.path, folder.bytes,
                 folder.seconds, folder.step);
  }
  for (const UnsavedFolder& folder : end.unsaved) {
    spdlog::error("cannot save {} after step {}: {}; the measurement is kept", folder.path,
                  folder.step, folder.problem);
  }
}

}  // namespace sftbench
