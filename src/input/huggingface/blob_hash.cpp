#include "huggingface/blob_hash.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/loaded_library.h"

namespace sftbench {
namespace {

constexpr size_t kSha1Digits = 40;
constexpr size_t kSha256Digits = 64;
constexpr size_t kPieceBytes = size_t{1} << 20;

// The functions of OpenSSL's libcrypto that hashing needs; they use the processor's SHA
// instructions.
struct Crypto {
  decltype(&EVP_MD_CTX_new) context_new;
  decltype(&EVP_MD_CTX_free) context_free;
  decltype(&EVP_DigestInit_ex) init;
  decltype(&EVP_DigestUpdate) update;
  decltype(&EVP_DigestFinal_ex) final;
  decltype(&EVP_sha1) sha1;
  decltype(&EVP_sha256) sha256;

  static const Crypto& get() {
    static const Crypto crypto = load();
    return crypto;
  }

 private:
  static Crypto load() {
    const LoadedLibrary library(ReasonCode::kWeights, {"libcrypto.so.3", "libcrypto.so.1.1"},
                                "libssl3");
    Crypto crypto{};
    library.find(crypto.context_new, "EVP_MD_CTX_new");
    library.find(crypto.context_free, "EVP_MD_CTX_free");
    library.find(crypto.init, "EVP_DigestInit_ex");
    library.find(crypto.update, "EVP_DigestUpdate");
    library.find(crypto.final, "EVP_DigestFinal_ex");
    library.find(crypto.sha1, "EVP_sha1");
    library.find(crypto.sha256, "EVP_sha256");
    return crypto;
  }
};

}  // namespace

bool is_oid(std::string_view text) {
  return (text.size() == kSha1Digits || text.size() == kSha256Digits) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

struct BlobHash::State {
  EVP_MD_CTX* context = Crypto::get().context_new();
  ~State() { Crypto::get().context_free(context); }
};

BlobHash::BlobHash(std::string_view oid, uint64_t size_bytes) : state_(std::make_unique<State>()) {
  check(is_oid(oid), "a blob is named by a hash");
  const Crypto& crypto = Crypto::get();
  const bool git = oid.size() == kSha1Digits;
  check(crypto.init(state_->context, git ? crypto.sha1() : crypto.sha256(), nullptr) == 1,
        "libcrypto can hash");
  if (git) update("blob " + std::to_string(size_bytes) + '\0');
}

BlobHash::~BlobHash() = default;
BlobHash::BlobHash(BlobHash&&) noexcept = default;
BlobHash& BlobHash::operator=(BlobHash&&) noexcept = default;

void BlobHash::update(std::string_view content) {
  check(Crypto::get().update(state_->context, content.data(), content.size()) == 1,
        "libcrypto can hash");
}

std::string BlobHash::hexadecimal() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size_bytes = 0;
  check(Crypto::get().final(state_->context, digest.data(), &size_bytes) == 1,
        "libcrypto can hash");
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned i = 0; i < size_bytes; ++i) {
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15];
  }
  return text;
}

uint64_t hash_file(const std::filesystem::path& path, uint64_t size_bytes, BlobHash& hash,
                   const std::function<bool(uint64_t)>& on_piece) {
  const RandomAccessFile file(path);
  std::vector<char> piece(kPieceBytes);
  uint64_t done_bytes = 0;
  while (done_bytes < size_bytes) {
    const size_t wanted = std::min<uint64_t>(piece.size(), size_bytes - done_bytes);
    const size_t got = file.read_at(done_bytes, piece.data(), wanted);
    hash.update({piece.data(), got});
    done_bytes += got;
    if (got < wanted || !on_piece(got)) break;
  }
  return done_bytes;
}

}  // namespace sftbench
