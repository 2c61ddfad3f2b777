// Rank 0's part in what the ranks of a job say to each other: completes exchanges, keeps values,
// collects failures and has the last word on what the group ended for. Knows neither sockets nor
// clocks: messages and times go in, letters come out. For one thread.
//
// A failure: the first one that is heard of is told to all at once (kAlert). Each rank then says
// what it has to say itself (kFail), for the first to be heard need not be the cause: when one runs
// out of memory, others may report a lost peer sooner. When all that live have spoken, or after a
// grace period, one of them is the verdict: by code (precedence()), then the earliest. A lost or
// silent rank that the coordinator has seen itself outranks what others report about communication.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ranks/message.h"

namespace sftbench {

struct CoordinatorTimes {
  double communication_timeout_s = 600;  // of an exchange; without a sign of life of a rank
  double alive_period_s = 1;             // in which each rank says something
  double grace_s = 1.5;                  // for ranks to report what they ended for
};

class Coordinator {
 public:
  struct Letter {
    int to = 0;
    Message message;
  };

  Coordinator(int world_size, const CoordinatorTimes& times, double now_s);

  void receive(int from, const Message& message, double now_s);
  // That a rank's connection is gone: its process ended, or `why`.
  void lose(int rank, double now_s, const std::string& why = "the process ended");
  // What is due by now. To be called once in each period, and when due_s() has come.
  void tick(double now_s);
  double due_s() const;

  // What each rank has last said of where it is.
  std::vector<std::string> whereabouts() const;

  std::vector<Letter> take_letters() { return std::exchange(letters_, {}); }

 private:
  struct Cause {
    RankFailure failure;
    bool seen = false;  // by the coordinator for certain
  };
  struct Question {
    int rank = 0;
    std::string number;
  };

  void gather(int from, const Message& message, double now_s);
  void answer(int from, const Message& message);
  void report(int from, const Message& message, double now_s);
  void leave(int from);
  void blame(const RankFailure& failure, bool seen, double now_s);
  void look_for_silent(double now_s);
  void look_for_absent(double now_s);
  void decide(double now_s);
  const Cause* worst() const;
  std::string last_seen() const;
  std::vector<int> silent(double longer_than_s, double now_s) const;
  void tell_all(const Message& message);

  struct Member {
    double heard_s = 0;
    std::string where;
    bool lost = false;
    bool reported = false;
    bool left = false;
    std::optional<std::string> text;  // of the exchange that is under way
  };

  CoordinatorTimes times_;
  std::vector<Member> members_;
  double exchange_begin_s_ = 0;
  std::map<std::string, std::string> values_;
  std::multimap<std::string, Question> open_questions_;  // by key
  std::vector<Cause> causes_;                            // in the order in which they came
  double decide_by_s_ = 0;
  bool decided_ = false;
  bool all_left_ = false;
  std::vector<Letter> letters_;
};

}  // namespace sftbench
