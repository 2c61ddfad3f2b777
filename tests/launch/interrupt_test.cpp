#include "sftbench/launch/interrupt.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "sftbench/base/clock.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;

// Runs `body` in a child process and returns its exit status (or -signal).
int status_of(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    const int null_device = ::open("/dev/null", O_WRONLY);
    dup2(null_device, STDERR_FILENO);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void sleep_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

fs::path touched_file(const char* name) {
  const fs::path file = fs::path(testing::TempDir()) / name;
  std::ofstream(file) << "log";
  return file;
}

TEST(InterruptTest, WithoutASignalNothingHappens) {
  EXPECT_EQ(status_of([] {
              { InterruptWatcher watcher; }
              return 7;
            }),
            7);
}

TEST(InterruptTest, OutsideOfTrainingEachSignalEndsTheProcessAndRemovesFiles) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const fs::path file = touched_file("interrupt_at_once.log");
    EXPECT_EQ(status_of([&] {
                InterruptWatcher watcher;
                watcher.remove_when_interrupted(file);
                kill(getpid(), signal);
                sleep_ms(20000);
                return 7;
              }),
              130);
    EXPECT_FALSE(fs::exists(file));
  }
}

TEST(InterruptTest, WhenAllIsDoneSignalsChangeNothing) {
  const fs::path file = touched_file("interrupt_when_done.log");
  EXPECT_EQ(status_of([&] {
              {
                InterruptWatcher watcher;
                watcher.remove_when_interrupted(file);
                watcher.set_done();
                kill(getpid(), SIGTERM);
                sleep_ms(20);
                kill(getpid(), SIGTERM);
              }
              kill(getpid(), SIGTERM);
              return 7;
            }),
            7);
  EXPECT_TRUE(fs::exists(file));
}

TEST(InterruptTest, DuringTrainingTheLoopIsAskedToEnd) {
  EXPECT_EQ(status_of([] {
              InterruptWatcher watcher(20);
              watcher.set_graceful(true);
              kill(getpid(), SIGINT);
              for (int i = 0; i < 2000 && !watcher.requested(); ++i) sleep_ms(10);
              return watcher.requested() ? 8 : 9;
            }),
            8);
}

TEST(InterruptTest, ASecondSignalEndsAtOnce) {
  EXPECT_EQ(status_of([] {
              InterruptWatcher watcher(60);
              watcher.set_graceful(true);
              kill(getpid(), SIGINT);
              while (!watcher.requested()) sleep_ms(1);
              kill(getpid(), SIGINT);
              sleep_ms(20000);
              return 7;
            }),
            130);
}

TEST(InterruptTest, ALoopThatDoesNotEndIsEndedAfterTheGracePeriod) {
  const fs::path file = touched_file("interrupt_grace.log");
  const double begin_s = steady_seconds();
  EXPECT_EQ(status_of([&] {
              InterruptWatcher watcher(0.2);
              watcher.set_graceful(true);
              watcher.remove_when_interrupted(file);
              kill(getpid(), SIGTERM);
              sleep_ms(30000);
              return 7;
            }),
            130);
  EXPECT_GE(steady_seconds() - begin_s, 0.2);
  EXPECT_LT(steady_seconds() - begin_s, 20);
  EXPECT_FALSE(fs::exists(file));
}

TEST(InterruptTest, WhatThereIsToTellIsToldSoonInPlaceOfTheRemovalOfFiles) {
  const fs::path file = touched_file("interrupt_last_words.log");
  const double begin_s = steady_seconds();
  EXPECT_EQ(status_of([&] {
              InterruptWatcher watcher(60);
              std::atomic<bool> known = false;
              watcher.set_last_words({[&] { return known.load(); }, [] { return 4; }});
              watcher.set_graceful(true);
              watcher.remove_when_interrupted(file);
              kill(getpid(), SIGTERM);
              while (!watcher.requested()) sleep_ms(1);
              known = true;  // a moment after the signal
              sleep_ms(30000);
              return 7;
            }),
            4);
  EXPECT_LT(steady_seconds() - begin_s, 20);
  EXPECT_TRUE(fs::exists(file));
}

TEST(InterruptTest, LastWordsThatWereTakenBackAreNotSaid) {
  EXPECT_EQ(status_of([&] {
              InterruptWatcher watcher;
              watcher.set_last_words({[] { return true; }, [] { return 4; }});
              watcher.set_last_words({});
              kill(getpid(), SIGTERM);
              sleep_ms(20000);
              return 7;
            }),
            130);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
