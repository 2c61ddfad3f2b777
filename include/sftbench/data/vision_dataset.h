// Chats with images as fms-hf-tuning trains on them: the processor's text of the chat, in which
// each image has a placeholder for each of its features, every token but those and padding bears
// loss (VisionDataCollator).
//
// One difference: a text is cut to the maximum length, as everywhere else in this program.
// fms-hf-tuning does not cut it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/work_count.h"
#include "sftbench/data/chat_template.h"
#include "sftbench/data/image.h"
#include "sftbench/data/image_tiles.h"
#include "sftbench/data/parquet_library.h"
#include "sftbench/data/text_dataset.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {

struct VisionDatasetOptions {
  int64_t model_max_length = 0;
  VisionConfig vision;
  ChatForm form = ChatForm::kGraniteVision;
  std::shared_ptr<const jinja::Template> chat_template = {};  // null: `form` renders chats
};

class VisionDataset : public EncodedEntries {
 public:
  // A picture as it stands in the file; equal ones are held once.
  struct Picture {
    std::shared_ptr<const std::string> bytes;
    PixelSize size;
  };

  // REQUIRES: the tokenizer has the token "<image>".
  VisionDataset(std::unique_ptr<ParquetChats> chats, const Tokenizer& tokenizer,
                VisionDatasetOptions options);

  int64_t size() const override { return size_; }
  int64_t model_max_length() const override { return options_.model_max_length; }
  EncodedEntry entry(int64_t index) const override;
  int64_t length(int64_t index) const override;
  int64_t ignored_id() const override { return image_id_; }
  const VisionConfig& vision() const { return options_.vision; }

  // Encodes these entries on `threads` threads; the pictures' headers are read, not the pictures.
  // The file is read once, so this is called once. InputError as TextDataset::encode() has them,
  // each "entry N of FILE: ...".
  void encode(std::vector<int64_t> entries, int threads, TokenCountCache* counts = nullptr,
              WorkCount* work = nullptr);

  // REQUIRES: encode() was asked for it.
  const std::vector<Picture>& pictures(int64_t index) const;

  // The tiles of a picture (image_tiles.h). InputError "entry N of FILE: the image does not decode:
  // ..."
  std::vector<uint8_t> tiles(int64_t index, const Picture& picture) const;

 private:
  struct Row {
    int64_t index;
    ChatEntry chat;
  };
  class Interned;

  std::string place(int64_t index) const;
  std::vector<Row> read_rows(const std::vector<int64_t>& wanted, size_t& next, Interned& interned);
  void encode_row(const Row& row, const Tokenizer& tokenizer, int64_t& tokens);
  std::string text_of(const ChatEntry& chat) const;
  std::string expanded(const std::string& text, const std::vector<Picture>& pictures) const;

  std::unique_ptr<ParquetChats> chats_;
  Tokenizer tokenizer_;
  VisionDatasetOptions options_;
  int64_t size_ = 0;
  int64_t read_ = 0;  // rows of the file so far
  std::string path_;
  int32_t image_id_ = -1;
  int64_t token_limit_ = 0;
  std::vector<EncodedEntry> entries_;
  std::vector<std::vector<Picture>> pictures_;
};

}  // namespace sftbench
