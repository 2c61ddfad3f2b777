// How two ends of a connection find out that they are of the same job, before either believes or
// tells the other anything:
//
//   who listens   kChallenge: a random number
//   who comes     kAnswer: a random number of its own; from here on every frame of both sides has a
//                 seal: a keyed hash under keys that follow from the job's secret and both numbers,
//                 another for each direction
//   who comes     who it is (kHello)
//   who listens   kAccepted, or kRefused with the reason
//
// The first sealed frame of each side is its proof. Who listens says nothing that follows from the
// secret to somebody without it. No number is used twice, so that nothing that was recorded is any
// use, and what a rank said about its number, job and role cannot be changed on the way.
#pragma once

#include <optional>
#include <string>

#include "ranks/connection.h"

namespace sftbench {

// For one proof: who is slower is no rank, or comes again.
inline constexpr double kHandshakeSeconds = 10;

// The key of one use ("rendezvous") of a job's secret.
std::string key_of_use(const std::string& secret, const std::string& use);

std::string new_number();
Message challenge_with(const std::string& number);

// Who listens: takes the answer to its challenge. RunError(kNccl) when it is none.
void take_answer(const Message& answer, const std::string& key, const std::string& number,
                 Connection& guest);

// Who comes: answers what came first from who listens, and says `hello`. RunError(kNccl) when that
// is no challenge.
void answer_challenge(const Message& challenge, const std::string& key, const Message& hello,
                      Connection& host);

// Writes what is to be written and waits for the next message; none when the time is over or, then
// not `open`, the other side is gone. RunError(kNccl) as Connection::receive.
std::optional<Message> wait_for_message(Connection& connection, double until_s, bool& open);

}  // namespace sftbench
