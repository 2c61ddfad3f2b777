// An engine without libtorch: it trains nothing and tells its observers what a run would. How it
// ends is chosen by the environment variable FAKE_ENGINE: "" (well), cuda-oom, illegal-access,
// nccl, bad-alloc, internal, not-an-exception, no-steps, slow (until it is interrupted), stuck
// (never asks whether it is), family (stuck, with a child of its own; both ignore SIGTERM, and the
// child's number stands in the file FAKE_ENGINE_FILE), orphan (ends well, leaving that child).
//
// Several ranks exchange their numbers before each step. "rank 2: MODE; rank 0: MODE" are those
// ranks' modes, which take effect after the first step, and "" that of the others; there are as
// well kill, stop (both: itself, with that signal), crash (SIGSEGV), stall (never comes to the next
// exchange, but lives), lost (reports a lost peer), kill-at-end (after its last step),
// kill-at-start (before it trains), late-oom (runs out of GPU memory a little after the others were
// told that something is wrong), busy (a step so long that it is never heard of again).
#pragma once

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/engine/engine.h"

namespace sftbench {

class FakeEngine : public Engine {
 public:
  void train_job(const TrainingJob& job, RankGroup& group,
                 const std::vector<TrainObserver*>& observers,
                 const std::function<bool()>& interrupted) override {
    const std::string mode = mode_of(group.rank());
    if (mode == "family" || mode == "orphan") start_child();
    if (mode == "kill-at-start") std::raise(SIGKILL);
    const bool endless = mode == "slow" || mode == "stuck" || mode == "family";
    const int64_t steps = endless ? 100000 : job.batches.max_steps > 0 ? job.batches.max_steps : 3;

    TrainBegin begin;
    begin.total_steps = steps;
    begin.parameters_total = 1000;
    begin.parameters_trainable = 1000;
    begin.parameters_embedding = 100;
    begin.compute_dtype = name_of(job.precision.torch_dtype);
    begin.padding = name_of(job.data.padding);
    begin.tokenizer = "builtin";
    begin.warnings = {"the fake engine trains nothing"};
    begin.weights_seconds = 0.25;
    begin.tokenize_seconds = 0.125;
    begin.ranks = group.world_size();
    const LoadEvent load = {"loading", int64_t{1} << 30, int64_t{4} << 30, 3, 12};
    for (TrainObserver* observer : observers) observer->on_load(load);
    for (TrainObserver* observer : observers) observer->on_train_begin(begin);
    if (mode == "no-steps") return;
    TrainControl control;
    int64_t done = 0;
    while (done < steps && !control.stop) {
      group.at("before step " + std::to_string(done + 1));
      exchange(group, std::to_string(group.rank()));
      const StepEvent event = step(++done, job);
      for (TrainObserver* observer : observers) observer->on_step_end(event, control);
      // All stop where rank 0's observers say so.
      control.stop = exchange(group, control.stop ? "stop" : "") == "stop";
      fail_if_asked(mode, group);
      if (mode != "stuck" && mode != "family" && interrupted())
        throw RunError(ReasonCode::kKilled, "interrupted");
    }
    if (mode == "kill-at-end") std::raise(SIGKILL);
    TrainEnd end;
    end.steps = done;
    end.host_peak_rss_bytes.assign(static_cast<size_t>(group.world_size()), 123456789);
    for (TrainObserver* observer : observers) observer->on_train_end(end);
  }

  Json environment() const override {
    return {{"libtorch", "0.0-fake"}, {"blas", "none"},  {"threads", 1},
            {"cuda", nullptr},        {"nccl", nullptr}, {"gpus", Json::array()}};
  }

 private:
  static StepEvent step(int64_t number, const TrainingJob& job) {
    StepEvent event;
    event.step = number;
    event.begin_s = steady_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    event.end_s = steady_seconds();
    event.loss = 10.0 / static_cast<double>(number);
    event.grad_norm = 1.5;
    event.learning_rate = 1e-5;
    event.micro_batches = job.batches.gradient_accumulation_steps;
    event.samples = job.batches.per_device_batch_size * event.micro_batches;
    const int64_t positions = event.samples * job.data.model_max_length;
    event.tokens = {.padded = positions, .dataset = positions - 8, .loss_bearing = positions - 16};
    event.attention_flops = 5000;
    return event;
  }

  static void start_child() {
    std::signal(SIGTERM, SIG_IGN);
    const pid_t child = ::fork();
    for (; child == 0;) ::pause();
    std::ofstream(std::getenv("FAKE_ENGINE_FILE")) << child << std::endl;
  }

  static std::string mode_of(int rank) {
    const char* variable = std::getenv("FAKE_ENGINE");
    const std::string mode = variable != nullptr ? variable : "";
    if (mode.rfind("rank ", 0) != 0) return mode;
    const std::string mine = "rank " + std::to_string(rank) + ": ";
    const size_t begin = mode.find(mine);
    if (begin == std::string::npos) return "";
    return mode.substr(begin + mine.size(), mode.find(';', begin) - begin - mine.size());
  }

  // What rank 0 said; every rank's word is heard in the order of ranks.
  static std::string exchange(RankGroup& group, const std::string& text) {
    const std::vector<std::string> texts = group.all_gather(text);
    check(texts.size() == static_cast<size_t>(group.world_size()) &&
              texts[static_cast<size_t>(group.rank())] == text,
          "an exchange has every rank's text in its place");
    return texts.front();
  }

  static void fail_if_asked(const std::string& mode, RankGroup& group) {
    if (mode == "kill") std::raise(SIGKILL);
    if (mode == "stop") std::raise(SIGSTOP);
    if (mode == "crash") {
      std::fprintf(stderr, "about to read what is not there\n");
      std::signal(SIGSEGV, SIG_DFL);
      std::raise(SIGSEGV);
    }
    if (mode == "stall") {
      group.at("where it stalls");
      for (;;) ::pause();
    }
    if (mode == "latin1-crash") {
      std::fprintf(stderr, "caf\xe9 cannot be read\n");
      std::signal(SIGSEGV, SIG_DFL);
      std::raise(SIGSEGV);
    }
    if (mode == "latin1") throw InputError("caf\xe9: not a dataset");
    if (mode == "busy") std::this_thread::sleep_for(std::chrono::seconds(60));
    if (mode == "lost") throw RunError(ReasonCode::kNccl, "all_gather: lost peer");
    if (mode == "late-oom") {
      while (!group.failure()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      throw std::runtime_error("CUDA out of memory. Tried to allocate 2.00 GiB.");
    }
    if (mode == "cuda-oom") {
      throw std::runtime_error(
          "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 is full.\nframe");
    }
    if (mode == "illegal-access") {
      throw std::runtime_error("CUDA error: an illegal memory access was encountered\nframe");
    }
    if (mode == "nccl") throw std::runtime_error("NCCL Error 2: unhandled system error");
    if (mode == "bad-alloc") throw std::bad_alloc();
    if (mode == "internal") throw std::runtime_error("shapes do not match\nframe #0");
    if (mode == "not-an-exception") throw 42;
  }
};

}  // namespace sftbench
