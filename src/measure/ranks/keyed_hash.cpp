#include "ranks/keyed_hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <array>
#include <cerrno>

#include "sftbench/base/loaded_library.h"

namespace sftbench {
namespace {

struct Crypto {
  decltype(&HMAC) hmac;
  decltype(&EVP_sha256) sha256;
  decltype(&CRYPTO_memcmp) compare;

  static const Crypto& get() {
    static const Crypto crypto = load();
    return crypto;
  }

 private:
  static Crypto load() {
    const LoadedLibrary library(ReasonCode::kUnsupported, {"libcrypto.so.3", "libcrypto.so.1.1"},
                                "libssl3, with which ranks prove that they are of one job");
    Crypto crypto{};
    library.find(crypto.hmac, "HMAC");
    library.find(crypto.sha256, "EVP_sha256");
    library.find(crypto.compare, "CRYPTO_memcmp");
    return crypto;
  }
};

}  // namespace

std::string keyed_hash(std::string_view key, std::string_view text) {
  const Crypto& crypto = Crypto::get();
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned bytes = 0;
  const unsigned char* done = crypto.hmac(crypto.sha256(), key.data(), static_cast<int>(key.size()),
                                          reinterpret_cast<const unsigned char*>(text.data()),
                                          text.size(), hash.data(), &bytes);
  check(done != nullptr, "libcrypto can hash");
  return {reinterpret_cast<const char*>(hash.data()), bytes};
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && Crypto::get().compare(a.data(), b.data(), a.size()) == 0;
}

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t got = 0; got < count;) {
    const ssize_t more = ::getrandom(bytes.data() + got, count - got, 0);
    if (more < 0 && errno != EINTR) {
      throw RunError(ReasonCode::kInternal, "the kernel gives no random numbers");
    }
    if (more > 0) got += static_cast<size_t>(more);
  }
  return bytes;
}

std::string to_hexadecimal(std::string_view bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

}  // namespace sftbench
