#include "sftbench/plan/tracker_spec.h"

#include <unistd.h>

#include <filesystem>
#include <map>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/http/http_client.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

struct KindRow {
  const char* name;
  TrackerKind kind;
  const char* target;  // in help and messages
};
constexpr KindRow kKinds[] = {
    {"tensorboard", TrackerKind::kTensorboard, "DIR"},
    {"mlflow", TrackerKind::kMlflow, "http://HOST:PORT"},
    {"aim-info", TrackerKind::kAimInfo, "FILE"},
    {"jsonl", TrackerKind::kJsonl, "FILE"},
};

// Trackers that people will ask for, and what does their work here.
const std::map<std::string, std::string>& tracker_advice() {
  static const std::map<std::string, std::string> kAdvice = {
      {"wandb", "tensorboard=DIR, which `wandb sync DIR` takes"},
      {"aim", "aim-info=FILE, or tensorboard=DIR, which `aim convert tensorboard` takes"},
      {"trackio", "tensorboard=DIR"},
      {"clearml", "tensorboard=DIR"},
      {"comet_ml", "tensorboard=DIR"},
      {"neptune", "tensorboard=DIR"},
      {"file_logger", "jsonl=FILE"},
  };
  return kAdvice;
}

std::string kinds_text() {
  std::vector<std::string> texts;
  for (const KindRow& row : kKinds) texts.push_back(std::string(row.name) + "=" + row.target);
  return join(texts);
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const KindRow& row : kKinds) names.emplace_back(row.name);
  return names;
}

const KindRow* kind_row(const std::string& name) {
  for (const KindRow& row : kKinds) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

const char* name_of(TrackerKind kind) {
  for (const KindRow& row : kKinds) {
    if (row.kind == kind) return row.name;
  }
  return "";
}

// The folder, or where it would be made.
bool folder_can_be_written(fs::path folder) {
  std::error_code error;
  folder = fs::absolute(folder, error).lexically_normal();
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  return fs::is_directory(folder, error) && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

bool has_placeholder(const std::string& target) {
  return target.find(kKeyPlaceholder) != std::string::npos;
}

// Another word in braces than the one that is known.
std::string unknown_placeholder(const std::string& target) {
  for (size_t open = target.find('{'); open != std::string::npos;
       open = target.find('{', open + 1)) {
    const size_t close = target.find('}', open);
    if (close == std::string::npos) return {};
    const std::string word = target.substr(open, close - open + 1);
    if (word != kKeyPlaceholder) return word;
  }
  return {};
}

class TrackerReader {
 public:
  explicit TrackerReader(bool several) : several_(several) {}

  void take(const GivenTracker& given) {
    given_ = &given;
    const size_t equals = given.text.find('=');
    const std::string name = given.text.substr(0, equals);
    const KindRow* row = kind_row(name);
    if (row == nullptr) return refuse_unknown(name);
    if (equals == std::string::npos || equals + 1 == given.text.size()) {
      return refuse("'" + given.text + "' does not say where to",
                    std::string(row->name) + "=" + row->target);
    }
    const TrackerSpec spec{row->kind, given.text.substr(equals + 1)};
    if (is_sound(spec)) add(spec);
  }

  std::vector<TrackerSpec> specs() {
    if (!problems_.empty()) throw InputError(problems_);
    return std::move(specs_);
  }

 private:
  void refuse(std::string message, std::string expected, std::string nearest = {}) {
    problems_.push_back(
        {{}, 0, given_->origin, std::move(message), std::move(expected), std::move(nearest)});
  }

  void refuse_unknown(const std::string& name) {
    if (const std::string instead = tracker_instead_of(name); !instead.empty()) {
      return refuse("this program does not write to '" + name + "'", instead);
    }
    refuse("unknown tracker '" + name + "'", kinds_text(), nearest_spelling(name, kind_names()));
  }

  bool is_sound(const TrackerSpec& spec) {
    if (spec.kind == TrackerKind::kMlflow) return is_server(spec.target);
    if (spec.kind == TrackerKind::kTensorboard) return is_folder(spec.target);
    return is_file(spec);
  }

  bool is_server(const std::string& target) {
    const bool http = target.rfind("http://", 0) == 0 || target.rfind("https://", 0) == 0;
    const size_t host = target.find("://") + 3;
    if (http && target.size() > host && target[host] != '/') return true;
    refuse("mlflow=" + shown_url(target) + " is no address of a tracking server",
           "http://HOST:PORT or https://HOST, as `mlflow server` prints it");
    return false;
  }

  bool is_folder(const std::string& target) {
    if (folder_can_be_written(target)) return true;
    refuse("cannot write to " + target, "a folder that can be made or written to");
    return false;
  }

  bool is_file(const TrackerSpec& spec) {
    if (const std::string word = unknown_placeholder(spec.target); !word.empty()) {
      refuse(spec.target + " has " + word, kKeyPlaceholder);
      return false;
    }
    if (several_ && !has_placeholder(spec.target)) {
      refuse(spec.shown() + " is one file, and there is a measurement for each cell",
             std::string("a name with ") + kKeyPlaceholder + ", which becomes that of the cell");
      return false;
    }
    std::error_code error;
    const fs::path path = spec.target;
    // Whoever may write to the folder may have put it there, to have a file of ours overwritten.
    if (fs::is_symlink(fs::symlink_status(path, error))) {
      refuse(spec.target + " is a link", "the file that it leads to");
      return false;
    }
    const fs::file_status status = fs::status(path, error);
    const bool there = fs::exists(status);
    const fs::path folder = path.parent_path();
    if (folder_can_be_written(folder.empty() ? "." : folder) &&
        (!there || (fs::is_regular_file(status) && ::access(path.c_str(), W_OK) == 0))) {
      return true;
    }
    refuse("cannot write " + spec.target, "a file in a folder that can be made or written to");
    return false;
  }

  void add(const TrackerSpec& spec) {
    std::error_code error;
    std::string place = spec.kind == TrackerKind::kMlflow
                            ? shown_url(spec.target)
                            : fs::absolute(spec.target, error).lexically_normal().string();
    while (place.size() > 1 && place.back() == '/') place.pop_back();
    if (const auto [other, fresh] = places_.emplace(place, spec.shown()); !fresh) {
      return refuse(spec.shown() + " writes where " + other->second + " writes",
                    "a place for each tracker");
    }
    specs_.push_back(spec);
  }

  bool several_;
  const GivenTracker* given_ = nullptr;
  std::vector<TrackerSpec> specs_;
  std::map<std::string, std::string> places_;
  std::vector<Diagnostic> problems_;
};

}  // namespace

std::string TrackerSpec::shown() const {
  return std::string(name_of(kind)) + "=" +
         (kind == TrackerKind::kMlflow ? shown_url(target) : target);
}

std::string TrackerSpec::text() const {
  return std::string(name_of(kind)) + "=" + target;
}

std::string tracker_instead_of(const std::string& name) {
  const auto advice = tracker_advice().find(name);
  return advice == tracker_advice().end() ? std::string() : advice->second;
}

TrackerSpec tracker_of(const std::string& text) {
  const size_t equals = text.find('=');
  const KindRow* row = kind_row(text.substr(0, equals));
  if (row == nullptr || equals == std::string::npos) throw InputError(text + " is no tracker");
  return {row->kind, text.substr(equals + 1)};
}

std::vector<TrackerSpec> parse_trackers(const std::vector<GivenTracker>& given, bool several) {
  TrackerReader reader(several);
  for (const GivenTracker& tracker : given) reader.take(tracker);
  return reader.specs();
}

}  // namespace sftbench
