#include "sftbench/data/image.h"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

InputError broken(const std::string& why) {
  return InputError("the image does not decode: " + why);
}

void require_size(int64_t width, int64_t height) {
  const std::string found = std::to_string(width) + " x " + std::to_string(height) + " pixels";
  if (width < 1 || height < 1) throw broken("it has " + found);
  if (width > kMostImagePixels / height) {
    throw broken("it has " + found + "; at most " + std::to_string(kMostImagePixels) +
                 " are decoded");
  }
}

// --- JPEG ----------------------------------------------------------------------------------------

bool is_jpeg(std::string_view bytes) {
  return bytes.starts_with("\xFF\xD8\xFF");
}

// Whether the mark of a picture's end follows the last beginning of a scan.
bool ends_after_last_scan(std::string_view jpeg) {
  const size_t scan = jpeg.rfind("\xFF\xDA");
  return scan != std::string_view::npos && jpeg.find("\xFF\xD9", scan) != std::string_view::npos;
}

// Inks of four bytes a pixel as JPEG files hold them, 255 for none, to RGB. In place, in Pillow's
// arithmetic.
std::vector<uint8_t> rgb_of_cmyk(std::vector<uint8_t> pixels) {
  const size_t count = pixels.size() / 4;
  for (size_t i = 0; i < count; ++i) {
    const int white = pixels[4 * i + 3];
    for (size_t color = 0; color < 3; ++color) {
      const int product = (255 - pixels[4 * i + color]) * white + 128;
      const int ink = ((product >> 8) + product) >> 8;  // rounded product / 255
      pixels[3 * i + color] = static_cast<uint8_t>(std::max(0, white - ink));
    }
  }
  pixels.resize(3 * count);
  return pixels;
}

class JpegDecoder {
 public:
  explicit JpegDecoder(std::string_view bytes)
      : bytes_(bytes), decoder_(tjInitDecompress(), tjDestroy) {
    check(decoder_ != nullptr, "libjpeg-turbo starts");
  }

  PixelSize size() {
    int width = 0, height = 0, sampling = 0, colors = 0;
    require_whole(tjDecompressHeader3(decoder_.get(), data(), bytes_.size(), &width, &height,
                                      &sampling, &colors));
    require_size(width, height);
    cmyk_ = colors == TJCS_CMYK || colors == TJCS_YCCK;
    return {height, width};
  }

  // REQUIRES: size() was asked for.
  std::vector<uint8_t> pixels(const PixelSize& size) {
    if (!cmyk_) return decoded(size, TJPF_RGB);
    return rgb_of_cmyk(decoded(size, TJPF_CMYK));
  }

 private:
  std::vector<uint8_t> decoded(const PixelSize& size, TJPF format) {
    std::vector<uint8_t> pixels(static_cast<size_t>(size.height * size.width) *
                                static_cast<size_t>(tjPixelSize[format]));
    require_whole(tjDecompress2(decoder_.get(), data(), bytes_.size(), pixels.data(),
                                static_cast<int>(size.width), 0, static_cast<int>(size.height),
                                format, TJFLAG_ACCURATEDCT));
    return pixels;
  }

  // Pillow takes a picture with libjpeg's warnings (stray bytes, a damaged block) unless it is cut
  // off.
  void require_whole(int status) {
    if (status == 0) return;
    if (tjGetErrorCode(decoder_.get()) == TJERR_WARNING && ends_after_last_scan(bytes_)) return;
    throw broken(tjGetErrorStr2(decoder_.get()));
  }

  const unsigned char* data() const {
    return reinterpret_cast<const unsigned char*>(bytes_.data());
  }

  std::string_view bytes_;
  std::unique_ptr<void, int (*)(tjhandle)> decoder_;
  bool cmyk_ = false;
};

// --- PNG -----------------------------------------------------------------------------------------

bool is_png(std::string_view bytes) {
  return bytes.starts_with("\x89PNG\r\n\x1A\n");
}

// Of a call of libpng, which leaves by longjmp where it fails: nothing with a destructor may be
// alive between setjmp and there.
struct PngInput {
  std::string_view bytes;
  size_t at = 0;
  std::array<char, 200> message = {};
};

extern "C" void read_png_bytes(png_structp png, png_bytep target, size_t size) {
  auto* input = static_cast<PngInput*>(png_get_io_ptr(png));
  if (size > input->bytes.size() - input->at) png_error(png, "it is cut off");
  std::memcpy(target, input->bytes.data() + input->at, size);
  input->at += size;
}

extern "C" void keep_png_error(png_structp png, png_const_charp message) {
  auto* input = static_cast<PngInput*>(png_get_error_ptr(png));
  std::strncpy(input->message.data(), message, input->message.size() - 1);
  png_longjmp(png, 1);
}

extern "C" void ignore_png_warning(png_structp, png_const_charp) {}

// As Pillow's convert("RGB") has it: palettes and gray spread out, alpha dropped, no gamma.
void expand_to_rgb(png_structp png) {
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
}

class PngDecoder {
 public:
  explicit PngDecoder(std::string_view bytes) : input_{bytes} {
    png_ =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, &input_, keep_png_error, ignore_png_warning);
    check(png_ != nullptr, "libpng starts");
    info_ = png_create_info_struct(png_);
    check(info_ != nullptr, "libpng starts");
    // Sides are bounded here, as those of JPEG are.
    png_set_user_limits(png_, 0x7fffffff, 0x7fffffff);
    png_set_read_fn(png_, &input_, read_png_bytes);
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  PixelSize size() {
    if (!read_header()) throw broken(input_.message.data());
    const auto width = static_cast<int64_t>(png_get_image_width(png_, info_));
    const auto height = static_cast<int64_t>(png_get_image_height(png_, info_));
    require_size(width, height);
    return {height, width};
  }

  // REQUIRES: size() was asked for.
  std::vector<uint8_t> pixels(const PixelSize& size) {
    std::vector<uint8_t> rgb(static_cast<size_t>(size.height * size.width * 3));
    std::vector<png_bytep> rows(static_cast<size_t>(size.height));
    for (size_t y = 0; y < rows.size(); ++y)
      rows[y] = rgb.data() + y * static_cast<size_t>(size.width) * 3;
    if (!read_rows(rows.data(), static_cast<size_t>(size.width) * 3))
      throw broken(input_.message.data());
    return rgb;
  }

 private:
  bool read_header() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_info(png_, info_);
    return true;
  }

  bool read_rows(png_bytepp rows, size_t row_bytes) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    expand_to_rgb(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != row_bytes) png_error(png_, "its rows have another length");
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }

  PngInput input_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

// --- orientation ---------------------------------------------------------------------------------

int64_t number_at(std::string_view bytes, size_t at, size_t width, bool little) {
  int64_t number = 0;
  for (size_t i = 0; i < width; ++i) {
    const size_t digit = little ? width - 1 - i : i;
    number = number << 8 | static_cast<unsigned char>(bytes[at + digit]);
  }
  return number;
}

// The body, after `heading`, of the first application segment of a JPEG file that begins with it;
// empty where there is none.
std::string_view jpeg_segment(std::string_view bytes, std::string_view heading) {
  size_t at = 2;
  while (at + 4 <= bytes.size() && bytes[at] == '\xFF') {
    const auto marker = static_cast<unsigned char>(bytes[at + 1]);
    if (marker == 0xFF) {  // filling
      ++at;
      continue;
    }
    const auto length = static_cast<size_t>(number_at(bytes, at + 2, 2, false));
    if (marker == 0xDA || length < 2 || length > bytes.size() - at - 2) return {};
    const std::string_view body = bytes.substr(at + 4, length - 2);
    if (marker == 0xE1 && body.starts_with(heading)) return body.substr(heading.size());
    at += 2 + length;
  }
  return {};
}

// The body, after `heading`, of the first chunk of this type of a PNG file that begins with it.
std::string_view png_chunk(std::string_view bytes, std::string_view type,
                           std::string_view heading) {
  constexpr size_t kFrame = 12;  // length, type and checksum
  for (size_t at = 8; at + kFrame <= bytes.size();) {
    const auto length = static_cast<size_t>(number_at(bytes, at, 4, false));
    if (length > bytes.size() - at - kFrame) return {};
    const std::string_view body = bytes.substr(at + 8, length);
    if (bytes.substr(at + 4, 4) == type && body.starts_with(heading))
      return body.substr(heading.size());
    at += kFrame + length;
  }
  return {};
}

// The entry of a picture's orientation in its Exif; nothing where there is none.
std::optional<int64_t> exif_orientation(std::string_view exif) {
  const bool little = exif.starts_with(std::string_view("II*\0", 4));
  if (!little && !exif.starts_with(std::string_view("MM\0*", 4))) return std::nullopt;
  if (exif.size() < 8) return std::nullopt;
  const auto directory = static_cast<size_t>(number_at(exif, 4, 4, little));
  if (directory > exif.size() || exif.size() - directory < 2) return std::nullopt;
  const int64_t entries = number_at(exif, directory, 2, little);
  for (int64_t i = 0; i < entries; ++i) {
    const size_t at = directory + 2 + static_cast<size_t>(i) * 12;
    if (at + 12 > exif.size()) return std::nullopt;
    constexpr int64_t kOrientation = 0x0112, kShort = 3;
    if (number_at(exif, at, 2, little) != kOrientation) continue;
    constexpr int64_t kAsItIs = 1;
    return number_at(exif, at + 2, 2, little) == kShort ? number_at(exif, at + 8, 2, little)
                                                        : kAsItIs;
  }
  return std::nullopt;
}

// The same in XMP, an attribute or an element: tiff:Orientation="6", <tiff:Orientation>6<.
std::optional<int64_t> xmp_orientation(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = xmp.find(kName); at != std::string_view::npos; at = xmp.find(kName, at + 1)) {
    std::string_view rest = xmp.substr(at + kName.size());
    if (rest.starts_with("=\"")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with(">")) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') return rest[0] - '0';
  }
  return std::nullopt;
}

// How a picture lies, 1 to 8: 1 as it is, 5 and above with its sides exchanged. Exif decides before
// XMP; what neither says or what is no such number is 1. A PNG's compressed XMP is not read.
int orientation_of(std::string_view bytes) {
  constexpr std::string_view kExif("Exif\0\0", 6), kXmp("http://ns.adobe.com/xap/1.0/\0", 29),
      kPngXmp("XML:com.adobe.xmp\0\0", 19);
  const bool jpeg = is_jpeg(bytes);
  std::optional<int64_t> value =
      exif_orientation(jpeg ? jpeg_segment(bytes, kExif) : png_chunk(bytes, "eXIf", ""));
  if (!value)
    value = xmp_orientation(jpeg ? jpeg_segment(bytes, kXmp) : png_chunk(bytes, "iTXt", kPngXmp));
  return value && *value >= 1 && *value <= 8 ? static_cast<int>(*value) : 1;
}

PixelSize upright(const PixelSize& size, int orientation) {
  return orientation < 5 ? size : PixelSize{size.width, size.height};
}

Image upright(Image image, int orientation) {
  if (orientation == 1) return image;
  Image result = {upright(image.size, orientation), std::vector<uint8_t>(image.rgb.size())};
  const bool exchanged = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation >= 7;
  const bool from_below =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  auto target = result.rgb.begin();
  for (int64_t y = 0; y < result.size.height; ++y) {
    for (int64_t x = 0; x < result.size.width; ++x) {
      int64_t row = exchanged ? x : y, column = exchanged ? y : x;
      if (from_below) row = image.size.height - 1 - row;
      if (from_right) column = image.size.width - 1 - column;
      target = std::copy_n(image.rgb.begin() + (row * image.size.width + column) * 3, 3, target);
    }
  }
  return result;
}

InputError unknown_format(std::string_view bytes) {
  return broken(bytes.empty() ? "it has no bytes" : "its bytes are neither JPEG nor PNG");
}

}  // namespace

PixelSize image_size(std::string_view bytes) {
  if (is_jpeg(bytes)) return upright(JpegDecoder(bytes).size(), orientation_of(bytes));
  if (is_png(bytes)) return upright(PngDecoder(bytes).size(), orientation_of(bytes));
  throw unknown_format(bytes);
}

Image decode_image(std::string_view bytes) {
  const auto decoded = [bytes](auto decoder) {
    Image image;
    image.size = decoder->size();
    image.rgb = decoder->pixels(image.size);
    return upright(std::move(image), orientation_of(bytes));
  };
  if (is_jpeg(bytes)) return decoded(std::make_unique<JpegDecoder>(bytes));
  if (is_png(bytes)) return decoded(std::make_unique<PngDecoder>(bytes));
  throw unknown_format(bytes);
}

}  // namespace sftbench
