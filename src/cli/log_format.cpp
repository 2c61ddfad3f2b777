#include "cli/log_format.h"

#include <spdlog/pattern_formatter.h>

#include "sftbench/base/terminal_text.h"

namespace sftbench {
namespace {

class HarmlessMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = terminal_text({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<HarmlessMessage>();
  }
};

}  // namespace

std::unique_ptr<spdlog::formatter> log_format(const std::string& pattern) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<HarmlessMessage>('v').set_pattern(pattern);
  return formatter;
}

}  // namespace sftbench
