// Runs the built executable as a user would: its own process, environment, standard streams.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sftbench {

struct ProgramResult {
  int status = -1;  // exit status; -signal when a signal ended it
  std::string out;
  std::string err;
  double wall_s = 0;
  long peak_rss_kib = 0;
};

class Program {
 public:
  // A program with `arguments`, in `directory`, that sees the fake engine and no GPU unless
  // `environment` says otherwise ("" removes a variable).
  explicit Program(std::vector<std::string> arguments,
                   std::map<std::string, std::string> environment = {},
                   std::filesystem::path directory = {});

  // No file that it writes may grow beyond this, as on a disk that is full there.
  void limit_file_bytes(unsigned long bytes) { file_limit_bytes_ = bytes; }

  void start();
  pid_t pid() const { return pid_; }
  std::string read_err_until(const std::string& text);  // waits for it; what came so far
  ProgramResult finish();

 private:
  std::vector<std::string> arguments_;
  std::map<std::string, std::string> environment_;
  std::filesystem::path directory_;
  std::optional<unsigned long> file_limit_bytes_;
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  double begin_s_ = 0;
  std::string err_text_;
};

// start() and finish().
ProgramResult run_program(std::vector<std::string> arguments,
                          std::map<std::string, std::string> environment = {},
                          const std::filesystem::path& directory = {});

// A folder that is empty, below one of the running test alone.
std::filesystem::path fresh_folder(const std::string& name);

// Writes the experiments' own dataset with one short entry into `folder`/data, and
// `folder`/config.yaml, which has runs look for it there.
void configure_small_dataset(const std::filesystem::path& folder);

std::vector<std::string> file_names_below(const std::filesystem::path& folder);

}  // namespace sftbench
