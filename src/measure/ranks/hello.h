// What a rank says about itself when it comes, and what rank 0 thinks of it.
#pragma once

#include <string>

#include "ranks/message.h"

namespace sftbench {

struct Hello {
  std::string version;
  std::string session;
  int world_size = 0;
  RankInfo info;
  std::string problem;  // for which it will not join; empty: none
};

Message to_message(const Hello& hello);
// RunError(kNccl) when it is no rank's.
Hello hello_from(const Message& message);

}  // namespace sftbench
