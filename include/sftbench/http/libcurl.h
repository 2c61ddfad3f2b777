// The functions of libcurl that are used here, loaded at the first use (base/loaded_library.h).
#pragma once

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

namespace sftbench {

struct Curl {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_easy_escape) easy_escape;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
  decltype(&curl_free) free;

  // RunError(kWeights) when there is no libcurl, or one that is too old.
  static const Curl& get();
};

}  // namespace sftbench
