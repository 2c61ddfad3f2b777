#include "cli/log_format.h"

#include <spdlog/pattern_formatter.h>

#include "sftbench/base/terminal_text.h"

namespace sftbench {
namespace {

class HarmlessMessage : public spdlog::custom_flag_formatter {
 public:
  explicit HarmlessMessage(size_t columns) : columns_(columns) {}

  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = wrapped(
        terminal_text({message.payload.data(), message.payload.size()}), columns_, out.size());
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<HarmlessMessage>(columns_);
  }

 private:
  size_t columns_;
};

}  // namespace

std::unique_ptr<spdlog::formatter> log_format(const std::string& pattern, size_t columns) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<HarmlessMessage>('v', columns).set_pattern(pattern);
  return formatter;
}

}  // namespace sftbench
