#include "sftbench/data/vision_dataset.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "data/encode_threads.h"
#include "data/entry_errors.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"

namespace sftbench {
namespace {

// Rows whose texts are held at a time.
constexpr size_t kRowsAtATime = 256;
constexpr const char* kVideoPlaceholder = "<video>";

int64_t occurrences(const std::string& text, const std::string& word) {
  int64_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + word.size()))
    ++count;
  return count;
}

std::string placeholders(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += kImagePlaceholder;
  return text;
}

// What stands for an image in a text: LlavaNextProcessor's, or Idefics3Processor's
// get_image_prompt_string().
std::string image_text(const VisionConfig& vision, const PixelSize& image) {
  if (vision.connector == VisionConnector::kNewlines)
    return placeholders(image_positions(vision, image));
  const std::string around = "<fake_token_around_image>";
  const std::string features = placeholders(vision.tile_features());
  const TileGrid grid = tile_grid(vision, image);
  std::string text;
  for (int64_t row = 1; row <= grid.rows; ++row) {
    for (int64_t column = 1; column <= grid.columns; ++column) {
      text += around + "<row_" + std::to_string(row) + "_col_" + std::to_string(column) + ">" +
              features;
    }
    text += "\n";
  }
  return text + (grid.rows > 0 ? "\n" : "") + around + "<global-img>" + features + around;
}

}  // namespace

// Of equal pictures the first.
class VisionDataset::Interned {
 public:
  std::shared_ptr<const std::string> of(std::string bytes) {
    const std::string_view key = bytes;
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    auto kept = std::make_shared<const std::string>(std::move(bytes));
    known_.emplace(*kept, kept);
    return kept;
  }

 private:
  std::map<std::string_view, std::shared_ptr<const std::string>> known_;
};

VisionDataset::VisionDataset(std::unique_ptr<ParquetChats> chats, const Tokenizer& tokenizer,
                             VisionDatasetOptions options)
    : chats_(std::move(chats)),
      tokenizer_(tokenizer.clone()),
      options_(std::move(options)),
      size_(chats_->size()),
      path_(chats_->path()),
      token_limit_(std::min(options_.model_max_length, tokenizer.model_max_length())),
      entries_(static_cast<size_t>(size_)),
      pictures_(static_cast<size_t>(size_)) {
  check(options_.model_max_length > 0 &&
            options_.model_max_length <= std::numeric_limits<int32_t>::max(),
        "model_max_length is positive and fits the position type");
  const std::optional<int32_t> id = tokenizer_.token_id(kImagePlaceholder);
  check(id.has_value(), "the tokenizer of a vision model has a placeholder for images");
  image_id_ = *id;
}

// Entries are counted from 1.
std::string VisionDataset::place(int64_t index) const {
  return "entry " + std::to_string(index + 1) + " of " + path_ + ": ";
}

// The next rows of the file that are wanted. Their pictures go where they stay.
std::vector<VisionDataset::Row> VisionDataset::read_rows(const std::vector<int64_t>& wanted,
                                                         size_t& next, Interned& interned) {
  std::vector<Row> rows;
  while (rows.size() < kRowsAtATime && next < wanted.size()) {
    ChatEntry chat;
    std::string error;
    const bool fine = chats_->read_next(chat, error);
    const int64_t index = read_++;
    if (index != wanted[next]) continue;
    ++next;
    if (!fine) throw InputError(place(index) + error);
    for (std::string& bytes : chat.images)
      pictures_[static_cast<size_t>(index)].push_back({interned.of(std::move(bytes)), {}});
    rows.push_back({index, std::move(chat)});
  }
  return rows;
}

std::string VisionDataset::text_of(const ChatEntry& chat) const {
  for (const ChatMessage& message : chat.messages) {
    for (const ChatPart& part : message.parts)
      if (part.video) throw InputError("it has a video; images and texts are read");
  }
  if (chat.messages.empty()) return chat.text;
  if (!options_.chat_template) return render_chat(options_.form, chat.messages);
  return render_chat(*options_.chat_template, chat.messages, tokenizer_.special_tokens());
}

// REQUIRES: a placeholder for each picture.
std::string VisionDataset::expanded(const std::string& text,
                                    const std::vector<Picture>& pictures) const {
  std::string result;
  size_t begin = 0;
  for (const Picture& picture : pictures) {
    const size_t at = text.find(kImagePlaceholder, begin);
    result += text.substr(begin, at - begin) + image_text(options_.vision, picture.size);
    begin = at + std::string_view(kImagePlaceholder).size();
  }
  return result + text.substr(begin);
}

void VisionDataset::encode_row(const Row& row, const Tokenizer& tokenizer, int64_t& tokens) {
  std::vector<Picture>& pictures = pictures_[static_cast<size_t>(row.index)];
  for (Picture& picture : pictures) picture.size = image_size(*picture.bytes);
  const std::string text = text_of(row.chat);
  const int64_t places = occurrences(text, kImagePlaceholder);
  if (places != static_cast<int64_t>(pictures.size())) {
    throw InputError("its text has " + counted(places, "placeholder") + " " + kImagePlaceholder +
                     ", and it has " + counted(static_cast<int64_t>(pictures.size()), "image") +
                     "; expected one for each");
  }
  if (options_.vision.connector == VisionConnector::kSquares &&
      text.find(kVideoPlaceholder) != std::string::npos) {
    throw InputError(std::string("its text has a placeholder ") + kVideoPlaceholder +
                     "; images and texts are read");
  }
  std::vector<int32_t> ids = tokenizer.encode(expanded(text, pictures), true);
  tokens = static_cast<int64_t>(ids.size());
  const auto limit = static_cast<size_t>(options_.model_max_length);
  if (ids.size() > limit) {
    const auto last = std::find(ids.rbegin(), ids.rend(), image_id_).base() - ids.begin();
    if (last > static_cast<std::ptrdiff_t>(limit)) {
      throw InputError("its images reach to position " + std::to_string(last) +
                       ", and model_max_length is " + std::to_string(options_.model_max_length) +
                       "; a model_max_length of at least " + std::to_string(last) + " works");
    }
    ids.resize(limit);
    ids.shrink_to_fit();
  }
  EncodedEntry& entry = entries_[static_cast<size_t>(row.index)];
  entry.input_ids = std::move(ids);
  entry.loss_begin = 0;
  entry.has_response = true;
  entry.dataset_tokens = static_cast<int32_t>(std::min(tokens, token_limit_));
}

void VisionDataset::encode(std::vector<int64_t> entries, int threads, TokenCountCache* counts,
                           WorkCount* work) {
  check(read_ == 0, "a vision dataset is encoded once");
  std::sort(entries.begin(), entries.end());
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  if (work != nullptr) work->total = static_cast<int64_t>(entries.size());

  std::mutex mutex;
  EntryErrors errors;
  Interned interned;
  for (size_t next = 0; next < entries.size();) {
    const std::vector<Row> rows = read_rows(entries, next, interned);
    std::vector<int64_t> numbers(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) numbers[i] = static_cast<int64_t>(i);
    for_each_in_parallel(numbers, threads, tokenizer_, [&](int64_t number, const Tokenizer& own) {
      const Row& row = rows[static_cast<size_t>(number)];
      add_work(work, 1);
      try {
        int64_t tokens = 0;
        encode_row(row, own, tokens);
        if (counts == nullptr) return;
        const std::lock_guard lock(mutex);
        counts->set(row.index, tokens);
      } catch (const InputError& error) {
        Diagnostic wrong;
        wrong.message = place(row.index) + error.what();
        errors.add(row.index, std::move(wrong));
      }
    });
    errors.throw_if_any();
  }
  chats_.reset();
}

int64_t VisionDataset::length(int64_t index) const {
  return static_cast<int64_t>(entries_.at(static_cast<size_t>(index)).input_ids.size());
}

EncodedEntry VisionDataset::entry(int64_t index) const {
  const EncodedEntry& entry = entries_.at(static_cast<size_t>(index));
  check(entry.loss_begin >= 0, "the entry was encoded before it is used");
  return entry;
}

const std::vector<VisionDataset::Picture>& VisionDataset::pictures(int64_t index) const {
  return pictures_.at(static_cast<size_t>(index));
}

std::vector<uint8_t> VisionDataset::tiles(int64_t index, const Picture& picture) const {
  try {
    return tiles_of(decode_image(*picture.bytes), options_.vision);
  } catch (const InputError& error) {
    throw InputError(place(index) + error.what());
  }
}

}  // namespace sftbench
