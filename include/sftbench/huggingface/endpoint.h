// The hub that weights come from and the token that opens it, found where Hugging Face's libraries
// look. Source: huggingface_hub, "Environment variables".
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "sftbench/http/http_client.h"

namespace sftbench {

struct HubEndpoint {
  std::string url = "https://huggingface.co";  // without a slash at its end
  std::string token;                           // secret: no message and no log has it; may be empty
  std::string token_origin;  // where it was found: "HF_TOKEN", a file; for messages
  std::string ca_bundle;     // certificates to trust instead of the system's; may be empty
};

// `url`, else HF_ENDPOINT, else the default; the token of HF_TOKEN, HF_TOKEN_PATH, <hf_home>/token,
// <HF_HOME>/token, the first that is not empty; CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE, SSL_CERT_FILE.
// InputError: no http or https address, a token that cannot be one, a named token file that cannot
// be read, HF_HUB_OFFLINE is set.
HubEndpoint find_hub_endpoint(const std::string& url, const std::optional<std::string>& hf_home);

// Text that a server sent, fit for a terminal and a log: one line of ASCII, not
// longer than a message should be, the token replaced where the server repeats it.
std::string shown_text(std::string_view text, const HubEndpoint& endpoint);

}  // namespace sftbench
