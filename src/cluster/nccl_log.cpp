#include "sftbench/cluster/nccl_log.h"

#include <stdlib.h>

#include <algorithm>
#include <cctype>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const size_t end = std::min(line.find_first_of(" \t\r;"), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

// What comes after `mark`, up to the line's end; nothing where it does not stand.
std::string_view after(std::string_view line, std::string_view mark) {
  const size_t at = line.find(mark);
  return at == std::string_view::npos ? std::string_view() : line.substr(at + mark.size());
}

// "[0]mlx5_0:1/RoCE" -> "mlx5_0:1/RoCE"; "[RO]" is none.
std::string_view numbered_device(std::string_view word) {
  const size_t close = word.find(']');
  if (word.size() < 3 || word[0] != '[' || close == std::string_view::npos) return {};
  for (const char digit : word.substr(1, close - 1)) {
    if (std::isdigit(static_cast<unsigned char>(digit)) == 0) return {};
  }
  return word.substr(close + 1);
}

// "NET/IB/0/GDRDMA" -> "NET/IB/GDRDMA": which device it is matters less than how it is used.
std::string without_numbers(std::string_view way) {
  std::vector<std::string> parts;
  while (!way.empty()) {
    const size_t end = std::min(way.find('/'), way.size());
    const std::string_view part = way.substr(0, end);
    const bool number =
        std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!number) parts.emplace_back(part);
    way.remove_prefix(std::min(end + 1, way.size()));
  }
  return join(parts, "/");
}

bool starts_with(std::string_view text, std::string_view beginning) {
  return text.substr(0, beginning.size()) == beginning;
}

void parse_line(std::string_view line, NcclTransport& transport) {
  if (line.find("NCCL INFO") == std::string_view::npos) return;
  if (const auto network = words_of(after(line, "Using network ")); !network.empty()) {
    transport.networks.emplace(network.front());
  } else if (line.find(" NET/") != std::string_view::npos &&
             line.find(" : Using ") != std::string_view::npos) {
    for (const std::string_view word : words_of(after(line, " : Using "))) {
      if (word == "OOB") break;
      const std::string_view device = numbered_device(word);
      if (!device.empty()) transport.devices.emplace(device);
    }
  } else if (line.find(" Channel ") != std::string_view::npos) {
    const auto way = words_of(after(line, " via "));
    if (!way.empty()) ++transport.channels[without_numbers(way.front())];
  }
}

Json gdrdma(const NcclTransport& transport) {
  int direct = 0;
  int all = 0;
  for (const auto& [way, count] : transport.channels) {
    if (!starts_with(way, "NET/")) continue;
    all += count;
    if (way.find("/GDRDMA") != std::string::npos) direct += count;
  }
  if (all == 0) return nullptr;
  return direct == 0 ? "none" : direct == all ? "all" : "some";
}

}  // namespace

bool NcclTransport::uses_roce() const {
  return networks.count("IB") != 0 &&
         std::any_of(devices.begin(), devices.end(), [](const std::string& device) {
           return device.find("/RoCE") != std::string::npos;
         });
}

void NcclTransport::merge(const NcclTransport& other) {
  networks.insert(other.networks.begin(), other.networks.end());
  devices.insert(other.devices.begin(), other.devices.end());
  for (const auto& [way, count] : other.channels) channels[way] += count;
}

NcclTransport parse_nccl_log(std::string_view log) {
  NcclTransport transport;
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    parse_line(log.substr(0, end), transport);
    log.remove_prefix(std::min(end + 1, log.size()));
  }
  return transport;
}

Json to_json(const NcclTransport& transport) {
  return {{"network", join({transport.networks.begin(), transport.networks.end()})},
          {"devices", transport.devices},
          {"channels", transport.channels},
          {"gdrdma", gdrdma(transport)}};
}

NcclTransport nccl_transport_from_json(const Json& json) {
  NcclTransport transport;
  if (const std::string network = json.at("network"); !network.empty())
    transport.networks = {network};
  transport.devices = json.at("devices").get<std::set<std::string>>();
  transport.channels = json.at("channels").get<std::map<std::string, int>>();
  return transport;
}

NcclLog::NcclLog(const Environment& environment) {
  for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"}) {
    if (environment.count(name) != 0) return;
  }
  std::string folder = (fs::temp_directory_path() / "sftbench-nccl-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return;
  folder_ = folder;
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_SUBSYS", "INIT,NET,P2P,SHM", 1);
  ::setenv("NCCL_DEBUG_FILE", (folder_ / "%h.%p").c_str(), 1);
}

NcclLog::~NcclLog() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

std::string NcclLog::read() const {
  std::string text;
  std::error_code error;
  if (folder_.empty()) return text;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    text += read_file(it->path());
  }
  return text;
}

}  // namespace sftbench
