// Pictures, chats and placeholders against Pillow and transformers
// (tests/reference/vision_data.py).
#include "sftbench/data/vision_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>

#include "data/golden.h"
#include "data/vision_image.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/sha256.h"
#include "sftbench/data/image_scaling_file.h"
#include "sftbench/data/micro_batch.h"
#include "sftbench/families/model_config.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string from_base64(const std::string& text) {
  static const std::string kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char digit : text) {
    const size_t value = kDigits.find(digit);
    if (value == std::string::npos) break;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

const Json& reference() {
  static const Json kGolden = golden("vision_dataset.json");
  return kGolden;
}

std::string picture(const std::string& name) {
  for (const Json& one : reference().at("pictures"))
    if (one.at("name") == name) return from_base64(one.at("base64"));
  throw std::runtime_error("no picture " + name);
}

template <typename Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

// --- pictures ------------------------------------------------------------------------------------

TEST(ImageTest, DecodesAsPillowDoes) {
  for (const Json& expected : reference().at("pictures")) {
    const std::string bytes = from_base64(expected.at("base64"));
    const Image image = decode_image(bytes);
    const PixelSize size = {expected.at("height"), expected.at("width")};
    EXPECT_EQ(image.size, size) << expected.at("name");
    EXPECT_EQ(image_size(bytes), size) << expected.at("name");
    const std::string rgb(image.rgb.begin(), image.rgb.end());
    EXPECT_EQ(sha256(rgb), expected.at("sha256")) << expected.at("name");
  }
}

std::string number(int64_t value, int bytes, bool little) {
  std::string text;
  for (int i = 0; i < bytes; ++i)
    text += static_cast<char>(value >> 8 * (little ? i : bytes - 1 - i) & 0xFF);
  return text;
}

// An entry of an Exif directory: a tag, its type (3: 16 bits), and one value.
struct ExifEntry {
  int tag = 0x0112, type = 3, value = 6;
};

std::string exif(int count, const std::vector<ExifEntry>& entries, bool little = true) {
  std::string text = little ? std::string("II*\0", 4) : std::string("MM\0*", 4);
  text += number(8, 4, little) + number(count, 2, little);
  for (const ExifEntry& entry : entries)
    text += number(entry.tag, 2, little) + number(entry.type, 2, little) + number(1, 4, little) +
            number(entry.value, 2, little) + std::string(2, '\0');
  return text;
}

// Whether the sides of a picture are exchanged with these segments in front.
bool is_turned(const std::string& segments) {
  std::string jpeg = vision_image_jpeg(30, 20);
  jpeg.insert(2, segments);
  const PixelSize size = image_size(jpeg);
  EXPECT_EQ(size.width + size.height, 50);
  return size.height == 30;
}

std::string segment(const std::string& body) {
  return "\xFF\xE1" + number(static_cast<int64_t>(body.size()) + 2, 2, false) + body;
}

bool exif_turns(const std::string& exif) {
  return is_turned(segment(std::string("Exif\0\0", 6) + exif));
}

// Exif 2.3: the directory has a count, and behind it as many entries of 12 bytes. Orientations from
// 5 on exchange sides.
TEST(ImageTest, TurnsByTheOrientationOfItsExifDirectoryAlone) {
  EXPECT_TRUE(exif_turns(exif(1, {{}})));
  EXPECT_TRUE(exif_turns(exif(1, {{}}, false)));
  EXPECT_TRUE(exif_turns(exif(2, {{.tag = 0x0100}, {}})));
  EXPECT_FALSE(exif_turns(exif(1, {{.tag = 0x0100}, {}}))) << "it stands behind the directory";
  EXPECT_FALSE(exif_turns(exif(0, {{}})));
  EXPECT_FALSE(exif_turns(exif(1, {{.type = 4}}))) << "no 16 bits";
  for (const int value : {0, 1, 4, 9})
    EXPECT_FALSE(exif_turns(exif(1, {{.value = value}}))) << value;
  for (const int value : {5, 8}) EXPECT_TRUE(exif_turns(exif(1, {{.value = value}}))) << value;
  const std::string whole = exif(1, {{}});
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(exif_turns(whole.substr(0, length))) << length;
  std::string far = whole;
  far.replace(4, 4, number(static_cast<int64_t>(whole.size()) + 1, 4, true));
  EXPECT_FALSE(exif_turns(far)) << "the directory would begin behind the end";
}

TEST(ImageTest, FindsItsOrientationBehindOtherSegmentsAndFilling) {
  const std::string turning = segment(std::string("Exif\0\0", 6) + exif(1, {{}}));
  EXPECT_TRUE(is_turned(segment("other") + turning));
  EXPECT_TRUE(is_turned(segment("") + "\xFF" + turning));
  const std::string xmp("http://ns.adobe.com/xap/1.0/\0", 29);
  EXPECT_TRUE(is_turned(segment(xmp + "tiff:Orientation=\"6\"")));
  EXPECT_TRUE(is_turned(segment(xmp + "<tiff:Orientation>6<")));
  EXPECT_TRUE(is_turned(segment(xmp + "tiff:Orientation = tiff:Orientation=\"8\"")));
  EXPECT_FALSE(is_turned(segment(xmp + "tiff:Orientation=\"")));
  EXPECT_FALSE(is_turned(segment(xmp + "tiff:Orientation=\"6\"") +
                         segment(std::string("Exif\0\0", 6) + exif(1, {{.value = 1}}))))
      << "Exif decides before XMP";
}

TEST(ImageTest, SaysWhatIsWrongWithAPicture) {
  EXPECT_EQ(error_of([] { decode_image(""); }), "the image does not decode: it has no bytes");
  EXPECT_EQ(error_of([] { decode_image("GIF89a"); }),
            "the image does not decode: its bytes are neither JPEG nor PNG");
  for (const char* name : {"jpeg", "png", "jpeg 4:4:4 progressive"}) {
    const std::string whole = picture(name);
    for (const size_t length : {whole.size() / 2, whole.size() / 4, size_t{20}}) {
      EXPECT_THAT(error_of([&] { decode_image(whole.substr(0, length)); }),
                  StartsWith("the image does not decode: "))
          << name << " cut to " << length;
    }
  }
}

TEST(ImageTest, BoundsThePixels) {
  std::string huge = picture("png");
  // Width and height in the header chunk, and its checksum.
  const std::string sides("\x7F\xFF\xFF\xFF\x7F\xFF\xFF\xFF", 8);
  huge.replace(16, 8, sides);
  EXPECT_THAT(error_of([&] { image_size(huge); }), StartsWith("the image does not decode: "));
  std::string jpeg = vision_image_jpeg(64, 64);
  const size_t frame = jpeg.find("\xFF\xC0");
  jpeg.replace(frame + 5, 4, "\xFF\xDC\xFF\xDC");  // the most that JPEG libraries take
  EXPECT_EQ(
      error_of([&] { decode_image(jpeg); }),
      "the image does not decode: it has 65500 x 65500 pixels; at most 178956970 are decoded");
  jpeg.replace(frame + 5, 4, std::string(4, '\0'));
  EXPECT_THAT(error_of([&] { decode_image(jpeg); }), StartsWith("the image does not decode: "));
}

// --- tiles ---------------------------------------------------------------------------------------

// The golden tiles of tests/reference/vision_models.py are held against tiles_of() in tests/model.

TEST(ImageTilesTest, LeaveAnImageOfTheTilesSizeAsItIs) {
  const Image image = decode_image(picture("png"));
  EXPECT_EQ(resized(image, image.size, ImageFilter::kLanczos).rgb, image.rgb);
}

// --- chats ---------------------------------------------------------------------------------------

std::vector<ChatMessage> messages_of(const Json& messages) {
  std::vector<ChatMessage> chat;
  for (const Json& message : messages) {
    chat.push_back({message.at("role"), {}});
    for (const Json& part : message.at("content"))
      chat.back().parts.push_back({part.at("type") == "image", part.value("text", std::string())});
  }
  return chat;
}

TEST(ChatTemplateTest, RendersAsTransformersDoes) {
  for (const Json& chat : reference().at("chats")) {
    const std::vector<ChatMessage> messages = messages_of(chat.at("messages"));
    EXPECT_EQ(render_chat(ChatForm::kGraniteVision, messages), chat.at("text"));
    if (chat.contains("llava_mistral")) {
      EXPECT_EQ(render_chat(ChatForm::kLlavaMistral, messages), chat.at("llava_mistral"));
    }
  }
}

TEST(ChatTemplateTest, TheFormIsThatOfTheModelsOwnTemplate) {
  const fs::path folder = fs::path(::testing::TempDir()) / "chat_form";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const auto form_of = [&](const std::string& text) {
    write_file_atomic(folder / "chat_template.jinja", text);
    return chat_form_of(folder);
  };
  EXPECT_EQ(chat_form_of(folder), std::nullopt);
  EXPECT_EQ(form_of("{{ '<|user|>' }}"), ChatForm::kGraniteVision);
  EXPECT_EQ(form_of("[INST] <image>"), ChatForm::kLlavaMistral);
  EXPECT_THROW(form_of("[INST] text"), InputError);
}

TEST(ChatTemplateTest, NamesARoleWithoutAPlace) {
  EXPECT_EQ(error_of([] {
              render_chat(ChatForm::kLlavaMistral, {{"system", {}}});
            }),
            "the chat has a message of role 'system'; expected user or assistant");
  EXPECT_THAT(error_of([] {
                render_chat(ChatForm::kGraniteVision, {{"tool", {}}});
              }),
              HasSubstr("expected system, user or assistant"));
}

// --- entries -------------------------------------------------------------------------------------

// Entries that stand in memory.
class Chats : public ParquetChats {
 public:
  explicit Chats(std::vector<ChatEntry> entries) : entries_(std::move(entries)) {}
  int64_t size() const override { return static_cast<int64_t>(entries_.size()); }
  const std::string& path() const override { return path_; }
  bool read_next(ChatEntry& entry, std::string&) override {
    entry = entries_.at(next_++);
    return true;
  }

 private:
  std::vector<ChatEntry> entries_;
  std::string path_ = "chats.parquet";
  size_t next_ = 0;
};

ChatEntry entry_of(const Json& chat) {
  ChatEntry entry;
  entry.messages = messages_of(chat.at("messages"));
  for (const Json& image : chat.at("images")) entry.images.push_back(from_base64(image));
  return entry;
}

const fs::path kGraniteVision = fs::path(SFTBENCH_PUBLISHED) / "tiny-granite-vision";

VisionConfig granite_vision() {
  Json config = read_json_file((kGraniteVision / "config.json").string());
  // The file has fewer layers than its feature layers need, and more key heads than heads.
  config["vision_config"]["num_hidden_layers"] = 24;
  config["text_config"]["num_key_value_heads"] = 4;
  return *parse_model_config(config).vision;
}

VisionDataset dataset_of(std::vector<ChatEntry> entries, int64_t length = 4096) {
  const Tokenizer tokenizer = Tokenizer::from_directory(kGraniteVision);
  return {std::make_unique<Chats>(std::move(entries)), tokenizer,
          VisionDatasetOptions{length, granite_vision(), ChatForm::kGraniteVision}};
}

Json runs_of(const std::vector<int64_t>& ids) {
  Json runs = Json::array();
  for (const int64_t id : ids) {
    if (!runs.empty() && runs.back()[0] == id) {
      runs.back()[1] = runs.back()[1].get<int64_t>() + 1;
    } else {
      runs.push_back({id, 1});
    }
  }
  return runs;
}

TEST(VisionDatasetTest, IdsAndLabelsAreThoseOfTheProcessor) {
  std::vector<ChatEntry> entries;
  for (const Json& chat : reference().at("chats")) entries.push_back(entry_of(chat));
  VisionDataset dataset = dataset_of(entries);
  dataset.encode({3, 2, 1, 0, 2}, 2);
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const Json& expected = reference().at("chats")[static_cast<size_t>(i)];
    // The reference pads with the token of the end of a text.
    const MicroBatch batch = make_micro_batch(dataset, {i}, Padding::kLongest, /*pad_id=*/0);
    EXPECT_EQ(runs_of(batch.input_ids), expected.at("ids")) << i;
    EXPECT_EQ(runs_of(batch.labels), expected.at("labels")) << i;
    EXPECT_EQ(dataset.pictures(i).size(), expected.at("images").size());
  }
}

TEST(VisionDatasetTest, CutsTextsButNoImages) {
  const ChatEntry entry = entry_of(reference().at("chats")[0]);
  VisionDataset dataset = dataset_of({entry}, 1530);
  dataset.encode({0}, 1);
  EXPECT_EQ(dataset.entry(0).input_ids.size(), 1530U);
  VisionDataset narrow = dataset_of({entry}, 1024);
  EXPECT_THAT(error_of([&] { narrow.encode({0}, 1); }),
              AllOf(StartsWith("entry 1 of chats.parquet: its images reach to position "),
                    HasSubstr("and model_max_length is 1024; a model_max_length of at least ")));
}

TEST(VisionDatasetTest, NamesEntriesWhosePlaceholdersAreNotTheirImages) {
  const auto entry = [](const std::string& text, int images) {
    ChatEntry made;
    made.text = text;
    for (int i = 0; i < images; ++i) made.images.push_back(picture("png"));
    return made;
  };
  VisionDataset dataset =
      dataset_of({entry("<image> a", 1), entry("<image> <image> b", 1), entry("c", 2)});
  EXPECT_THAT(
      error_of([&] {
        dataset.encode({0, 1, 2}, 2);
      }),
      AllOf(HasSubstr("entry 2 of chats.parquet: its text has 2 placeholders <image>, and it has 1 "
                      "image; expected one for each"),
            HasSubstr("entry 3 of chats.parquet: its text has 0 placeholders <image>, and it has 2 "
                      "images; expected one for each")));
}

TEST(VisionDatasetTest, NamesTheEntryOfAnImageThatDoesNotDecode) {
  ChatEntry fine, broken, cut;
  fine.text = broken.text = cut.text = "<image>";
  fine.images = {picture("jpeg")};
  broken.images = {"no picture"};
  cut.images = {picture("jpeg").substr(0, 700)};
  VisionDataset dataset = dataset_of({fine, broken, cut});
  EXPECT_THAT(
      error_of([&] {
        dataset.encode({0, 1}, 1);
      }),
      HasSubstr("entry 2 of chats.parquet: the image does not decode: its bytes are neither "
                "JPEG nor PNG"));
  // Whose header is whole, and whose pixels are not.
  VisionDataset late = dataset_of({fine, cut});
  late.encode({0, 1}, 1);
  EXPECT_EQ(late.tiles(0, late.pictures(0)[0]).size() % (3 * 384 * 384), 0U);
  EXPECT_THAT(error_of([&] { late.tiles(1, late.pictures(1)[0]); }),
              StartsWith("entry 2 of chats.parquet: the image does not decode: "));
}

TEST(VisionDatasetTest, HoldsEqualPicturesOnce) {
  ChatEntry entry;
  entry.text = "<image>";
  entry.images = {picture("png")};
  VisionDataset dataset = dataset_of({entry, entry});
  dataset.encode({0, 1}, 1);
  EXPECT_EQ(dataset.pictures(0)[0].bytes, dataset.pictures(1)[0].bytes);
}

// --- preprocessor_config.json --------------------------------------------------------------------

TEST(VisionDatasetTest, ReadsTheScalingOfPixels) {
  VisionConfig vision = granite_vision();
  EXPECT_EQ(read_image_scaling(kGraniteVision, vision), ImageScaling());
  EXPECT_EQ(read_image_scaling(fs::path(SFTBENCH_TEST_DATA), vision), std::nullopt);
}

class ProcessorFiles : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const char* name, const Json& json) const { std::ofstream(folder_ / name) << json; }
  std::string error_for(VisionConfig vision) const {
    return error_of([&] { read_image_scaling(folder_, vision); });
  }

  fs::path folder_ = fs::temp_directory_path() / ("sftbench-scaling-" + std::to_string(::getpid()));
};

TEST_F(ProcessorFiles, RefusesAProcessorOfOtherPixels) {
  Json processor = read_json_file((kGraniteVision / "preprocessor_config.json").string());
  processor["resample"] = 2;
  processor["size"] = {{"height", 336}, {"width", 336}};
  processor["image_std"] = {0.5, 0, 0.5};
  write("preprocessor_config.json", processor);
  EXPECT_THAT(error_for(granite_vision()),
              AllOf(HasSubstr("preprocessor_config.json"), HasSubstr("resample"), HasSubstr("size"),
                    HasSubstr("image_std")));
}

// Tiles of SmolVLM2-2.2B: 27 patches along a side, squares of 3 by 3.
VisionConfig squares() {
  VisionConfig vision;
  vision.connector = VisionConnector::kSquares;
  vision.clip = false;
  vision.image_size = 384;
  vision.patch_size = 14;
  vision.square = 3;
  vision.longest_side = 1536;
  return vision;
}

TEST_F(ProcessorFiles, SayTheSidesOfSquares) {
  const Json colors = {0.5, 0.5, 0.5};
  Json processor = {{"resample", 1},        {"max_image_size", {{"longest_edge", 252}}},
                    {"image_mean", colors}, {"size", {{"longest_edge", 504}}},
                    {"image_std", colors},  {"do_image_splitting", false}};
  write("preprocessor_config.json", processor);
  VisionConfig vision = squares();
  EXPECT_EQ(read_image_scaling(folder_, vision), ImageScaling());
  EXPECT_EQ(vision.image_size, 252);
  EXPECT_EQ(vision.longest_side, 504);
  EXPECT_FALSE(vision.cuts);
  EXPECT_EQ(vision.tile_features(), 36);
  // Of the class, where the file says nothing: 26 patches are no squares of 3.
  processor.erase("max_image_size");
  write("preprocessor_config.json", processor);
  EXPECT_THAT(error_for(squares()), HasSubstr("max_image_size: found 364; expected a side whose "
                                              "patches (of 14 pixels) divide into squares of 3"));
  processor["max_image_size"] = {{"longest_edge", 384}};
  processor["size"] = {{"height", 384}, {"width", 384}};
  processor["resample"] = 3;
  write("preprocessor_config.json", processor);
  EXPECT_THAT(error_for(squares()), AllOf(HasSubstr("size: found"), HasSubstr("longest_edge"),
                                          HasSubstr("resample: found 3; expected 1")));
}

TEST_F(ProcessorFiles, TakeASideOrASquareOfTheTower) {
  Json processor = read_json_file((kGraniteVision / "preprocessor_config.json").string());
  const int64_t side = granite_vision().image_size;
  for (const Json& size :
       std::vector<Json>{side, {{"height", side}, {"width", side}}, {{"shortest_edge", side}}}) {
    processor["size"] = size;
    write("preprocessor_config.json", processor);
    EXPECT_EQ(error_for(granite_vision()), "no error") << size;
  }
  for (const Json& size :
       std::vector<Json>{side + 1, {{"height", side}, {"width", side + 1}}, "384"}) {
    processor["size"] = size;
    write("preprocessor_config.json", processor);
    EXPECT_THAT(error_for(granite_vision()), HasSubstr("size: found ")) << size;
  }
}

TEST_F(ProcessorFiles, HaveTheSidesOfTheClassWhereTheyNameNone) {
  write("preprocessor_config.json", {{"max_image_size", {{"longest_edge", 378}}},
                                     {"image_mean", {0.5, 0.5, 0.5}},
                                     {"image_std", {0.5, 0.5, 0.5}}});
  VisionConfig vision = squares();
  read_image_scaling(folder_, vision);
  EXPECT_EQ(vision.longest_side, 1456) << "Idefics3ImageProcessor: 4 * 364";
}

TEST_F(ProcessorFiles, MakeNoMoreThanSixteenTilesOfASide) {
  write("preprocessor_config.json", {{"max_image_size", {{"longest_edge", 42}}},
                                     {"size", {{"longest_edge", 673}}},
                                     {"image_mean", {0, 0, 0}},
                                     {"image_std", {1, 1, 1}}});
  EXPECT_THAT(error_for(squares()),
              HasSubstr("size: found 673; expected at most 16 times max_image_size (42)"));
}

TEST_F(ProcessorFiles, CountTheFeaturesOfATile) {
  write("processor_config.json", {{"image_seq_len", 81}});
  EXPECT_EQ(error_for(squares()), "no error");
  write("processor_config.json", {{"image_seq_len", 169}});
  EXPECT_THAT(error_for(squares()), HasSubstr("image_seq_len: found 169; expected 81"));
}

TEST_F(ProcessorFiles, HaveTheirTemplateBeforeTheTokenizers) {
  const std::vector<ChatMessage> chat = {{"user", {{true, ""}, {false, "What?"}}}};
  const auto rendered = [&] { return render_chat(smolvlm_template(folder_), chat, {}); };
  EXPECT_EQ(rendered(), "<|im_start|>User:<image>What?<end_of_utterance>\n");
  write("tokenizer_config.json", {{"chat_template", "of the tokenizer"}});
  EXPECT_EQ(rendered(), "of the tokenizer");
  write("chat_template.json", {{"chat_template", "{{ messages[0]['content'][1]['text'] }}"}});
  EXPECT_EQ(rendered(), "What?");
  std::ofstream(folder_ / "chat_template.jinja") << "{{ messages[0]['content'] | length }}";
  EXPECT_EQ(rendered(), "2");
}

// --- SmolVLM -------------------------------------------------------------------------------------

TEST(SmolVlmTest, RefusesVideosByName) {
  ChatEntry part, placeholder;
  part.messages = {{"user", {{false, "What?"}, {false, "", true}}}};
  placeholder.text = "<video> What?";
  const Tokenizer tokenizer = Tokenizer::from_directory(kGraniteVision);
  VisionDatasetOptions options = {4096, squares()};
  options.chat_template = std::make_shared<const jinja::Template>(smolvlm_template({}));
  VisionDataset dataset(std::make_unique<Chats>(std::vector{part, placeholder}), tokenizer,
                        options);
  EXPECT_THAT(
      error_of([&] {
        dataset.encode({0, 1}, 1);
      }),
      AllOf(HasSubstr("entry 1 of chats.parquet: it has a video; images and texts are read"),
            HasSubstr("entry 2 of chats.parquet: its text has a placeholder <video>")));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
