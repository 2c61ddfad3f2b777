#include "ranks/hello.h"

#include "sftbench/base/terminal_text.h"

namespace sftbench {
namespace {

constexpr const char* kMagic = "sftbench rank";
// Those are the same in all versions, so that a rank of another one can say which it is.
constexpr size_t kLeastParts = 9;

}  // namespace

Message to_message(const Hello& hello) {
  const RankInfo& info = hello.info;
  return {MessageKind::kHello,
          {kMagic, hello.version, hello.session, std::to_string(hello.world_size),
           std::to_string(info.rank), std::to_string(info.local_rank), std::to_string(info.node),
           info.host, std::to_string(info.pid), hello.problem}};
}

Hello hello_from(const Message& message) {
  const std::vector<std::string>& parts = message.parts;
  if (message.kind != MessageKind::kHello || parts.size() < kLeastParts || parts[0] != kMagic) {
    throw RunError(ReasonCode::kNccl, "what came is no rank of sftbench");
  }
  return {.version = terminal_line(parts[1]),
          .session = parts[2],
          .world_size = static_cast<int>(number_of(parts[3])),
          .info = {.rank = static_cast<int>(number_of(parts[4])),
                   .local_rank = static_cast<int>(number_of(parts[5])),
                   .node = static_cast<int>(number_of(parts[6])),
                   .host = terminal_line(parts[7]),
                   .pid = number_of(parts[8])},
          .problem = parts.size() > kLeastParts ? terminal_text(parts[kLeastParts]) : ""};
}

}  // namespace sftbench
