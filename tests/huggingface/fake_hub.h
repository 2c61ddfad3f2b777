// A Hugging Face-compatible hub for tests: the listing of a revision, small files from the hub's
// own host, large ones by a redirect to another (the "CDN"). Hashes come from the coreutils, not
// from the code under test. A test lays faults over it through `fault`.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "huggingface/loopback_server.h"
#include "sftbench/base/json.h"

namespace sftbench {

inline std::string coreutils_hash(const char* program, const std::string& content) {
  char path[] = "/tmp/sftbench_hash_XXXXXX";
  const int fd = ::mkstemp(path);
  if (fd < 0 || ::write(fd, content.data(), content.size()) != static_cast<ssize_t>(content.size()))
    throw std::runtime_error("cannot write in /tmp");
  ::close(fd);
  const std::string command = std::string(program) + " " + path;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  char line[256] = {};
  const bool read = pipe != nullptr && std::fgets(line, sizeof line, pipe) != nullptr;
  if (pipe != nullptr) ::pclose(pipe);
  std::filesystem::remove(path);
  if (!read) throw std::runtime_error(command + " says nothing");
  const std::string text = line;
  return text.substr(0, text.find(' '));
}

inline std::string git_hash(const std::string& content) {
  return coreutils_hash("sha1sum", "blob " + std::to_string(content.size()) + '\0' + content);
}
inline std::string sha256(const std::string& content) {
  return coreutils_hash("sha256sum", content);
}

// Bytes that look like nothing and are the same each time.
inline std::string noise(size_t size_bytes, uint32_t seed = 1) {
  std::string text(size_bytes, '\0');
  for (char& c : text) {
    seed = seed * 1664525 + 1013904223;
    c = static_cast<char>(seed >> 24);
  }
  return text;
}

// A safetensors file with one float tensor of this name and that many elements.
inline std::string safetensors(const std::string& tensor, size_t elements, uint32_t seed = 1) {
  std::string header = R"({")" + tensor + R"(":{"dtype":"F32","shape":[)" +
                       std::to_string(elements) + R"(],"data_offsets":[0,)" +
                       std::to_string(4 * elements) + "]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return length + header + noise(4 * elements, seed);
}

struct FakeFile {
  std::string content;
  bool large = false;  // kept as LFS: named by its sha256, served by the CDN
};

// Or dataset.
struct FakeModel {
  std::string commit = "1234567890abcdef1234567890abcdef12345678";
  std::map<std::string, FakeFile> files;
  std::string token;  // that opens it; empty: open to all
};

// What the smallest model has that this program can use.
inline FakeModel small_model(size_t elements = 50'000) {
  FakeModel model;
  model.files["config.json"] = {R"({"model_type": "llama"})"};
  model.files["tokenizer.json"] = {R"({"version": "1.0"})"};
  model.files["README.md"] = {"# A model\n"};
  model.files["model.safetensors"] = {safetensors("w", elements), true};
  return model;
}

// Three entries in two shards of the split train, and one of the split test.
inline FakeModel small_dataset() {
  FakeModel dataset;
  dataset.files["README.md"] = {"# A dataset\n"};
  dataset.files["data/train-00000-of-00002.jsonl"] = {
      "{\"input\": \"a word\", \"output\": \"the other word\"}\n"
      "{\"input\": \"one\", \"output\": \"two\"}\n",
      true};
  dataset.files["data/train-00001-of-00002.jsonl"] = {
      "{\"input\": \"three\", \"output\": \"four\"}\n", true};
  dataset.files["data/test-00000-of-00001.jsonl"] = {"{\"input\": \"five\", \"output\": \"six\"}\n",
                                                     true};
  return dataset;
}

class FakeHub {
 public:
  // The answer instead of the hub's; `nth` counts the requests of this path from 1 on.
  using Fault = std::function<std::optional<ServedReply>(const ServedRequest&, int nth)>;

  std::map<std::string, FakeModel> models;    // by hub id; set before the first request
  std::map<std::string, FakeModel> datasets;  // the same
  std::function<void(Json&)> change_listing = [](Json&) {};
  Fault fault = [](const ServedRequest&, int) { return std::nullopt; };      // of the hub
  Fault cdn_fault = [](const ServedRequest&, int) { return std::nullopt; };  // of the CDN

  std::string url() const { return hub_.url(); }
  const LoopbackServer& hub() const { return hub_; }
  const LoopbackServer& cdn() const { return cdn_; }

  static std::string oid(const FakeFile& file) {
    return file.large ? sha256(file.content) : git_hash(file.content);
  }

 private:
  ServedReply answer(const ServedRequest& request) {
    if (auto reply = fault(request, nth(request))) return *reply;
    if (auto reply = answer_about(request, models, "/api/models/", "/")) return *reply;
    if (auto reply = answer_about(request, datasets, "/api/datasets/", "/datasets/")) return *reply;
    return {401, {{"X-Error-Code", "RepoNotFound"}}, "Repository not found"};
  }

  std::optional<ServedReply> answer_about(const ServedRequest& request,
                                          const std::map<std::string, FakeModel>& repositories,
                                          const std::string& api, const std::string& pages) {
    for (const auto& [id, model] : repositories) {
      const std::string list = api + id + "/revision/";
      const std::string file = pages + id + "/resolve/" + model.commit + "/";
      const bool about = request.target.rfind(list, 0) == 0 || request.target.rfind(file, 0) == 0;
      if (!about) continue;
      if (!model.token.empty() && request.header("authorization") != "Bearer " + model.token)
        return ServedReply{401, {{"X-Error-Code", "GatedRepo"}}, "Access is restricted"};
      if (request.target.rfind(list, 0) == 0) return listing(model);
      const auto found = model.files.find(request.path().substr(file.size()));
      if (found == model.files.end())
        return ServedReply{404, {{"X-Error-Code", "EntryNotFound"}}, ""};
      if (!found->second.large) return ServedReply{200, {}, found->second.content};
      return ServedReply{
          302,
          {{"Location", cdn_.url() + pages + id + "/" + found->first + "?Signature=secret"}},
          ""};
    }
    return std::nullopt;
  }

  ServedReply listing(const FakeModel& model) {
    Json siblings = Json::array();
    for (const auto& [path, file] : model.files) {
      Json entry = {{"rfilename", path},
                    {"size", file.content.size()},
                    {"blobId", git_hash("pointer of " + path)}};
      if (file.large) {
        entry["lfs"] = {{"sha256", oid(file)}, {"size", file.content.size()}, {"pointerSize", 134}};
      } else {
        entry["blobId"] = oid(file);
      }
      siblings.push_back(entry);
    }
    Json json = {{"sha", model.commit}, {"siblings", siblings}};
    change_listing(json);
    return {200, {{"Content-Type", "application/json"}}, json.dump()};
  }

  ServedReply answer_of_cdn(const ServedRequest& request) {
    if (auto reply = cdn_fault(request, nth(request))) return *reply;
    for (const auto& [repositories, pages] :
         {std::pair(&models, std::string("/")), std::pair(&datasets, std::string("/datasets/"))}) {
      for (const auto& [id, model] : *repositories) {
        const std::string folder = pages + id + "/";
        if (request.path().rfind(folder, 0) != 0) continue;
        const auto found = model.files.find(request.path().substr(folder.size()));
        if (found != model.files.end()) return {200, {}, found->second.content};
      }
    }
    return {404, {}, ""};
  }

  int nth(const ServedRequest& request) {
    const std::lock_guard lock(mutex_);
    return ++counts_[request.path()];
  }

  std::mutex mutex_;
  std::map<std::string, int> counts_;
  // Last: their threads use what stands above.
  LoopbackServer cdn_{[this](const ServedRequest& request) { return answer_of_cdn(request); }};
  LoopbackServer hub_{[this](const ServedRequest& request) { return answer(request); }};
};

}  // namespace sftbench
