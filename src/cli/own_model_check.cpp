#include "cli/own_model_check.h"

#include <spdlog/spdlog.h>

#include <filesystem>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/kept_digest.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/checkpoint/checkpoint.h"
#include "sftbench/checkpoint/weights_digest.h"
#include "sftbench/jinja/chat_template.h"
#include "sftbench/space/validity.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(std::string key, const RunError& error) {
  const std::string evidence = error.evidence().empty() ? "" : " (" + error.evidence() + ")";
  throw InputError({{{}, 0, std::move(key), error.what() + evidence, {}, {}}});
}

// Of what resolve() finds: what is the folder's or the option's, whatever else an entity says.
void refuse_if_own(const RunError& error, const std::string& folder) {
  const std::string_view text = error.what();
  if (error.code() == ReasonCode::kWeights) refuse("--model", error);
  if (error.code() == ReasonCode::kData && text == no_chat_template(folder)) {
    refuse("--model", error);
  }
  if (error.code() == ReasonCode::kUnsupported && text.rfind("target_modules ", 0) == 0) {
    refuse("--lora-targets", error);
  }
}

// The tokenizer, and of the weights the headers, which say whether the files are whole.
void require_readable_files(const fs::path& folder, const ResolveOptions& options) {
  std::error_code error;
  if (fs::exists(folder / "tokenizer.json", error)) (void)Tokenizer::from_directory(folder);
  if (options.weights != "random") (void)open_checkpoint(folder);
}

// Keys need the digest of the weights, and nothing else is told meanwhile.
void tell_of_first_look(const fs::path& folder) {
  constexpr uintmax_t kWorthTellingBytes = uintmax_t{4} << 30;
  uintmax_t bytes = 0;
  try {
    for (const fs::path& file : weights_files(folder)) {
      if (!digest_is_kept(file)) bytes += fs::file_size(file);
    }
  } catch (const std::exception&) {  // refused where they are read
  }
  if (bytes < kWorthTellingBytes) return;
  spdlog::info("reading the weights of {} once, {}, to tell them from others", folder.string(),
               bytes_text(static_cast<double>(bytes)));
}

}  // namespace

void refuse_own_mistakes(const LoadedSpace& loaded, const Selection& selection,
                         const ResolveOptions& options) {
  const Space& space = loaded.space;
  const bool reads_weights = options.weights != "random" && options.backend != kBackendSimulate;
  if (!loaded.model_path.empty() && reads_weights) tell_of_first_look(loaded.model_path);
  const bool own = selection.space_path.empty() && !loaded.model_path.empty();
  if (!own || options.backend == kBackendSimulate || space.entity_count() == 0) return;
  const MeasurementRequest request = make_request(space.entity(0), space.experiments.front());
  const Catalog& catalog = Catalog::shipped();
  if (!validate(request.inputs, catalog.models).empty()) return;
  try {
    (void)resolve(request, loaded.settings, options, catalog);
  } catch (const RunError& error) {
    refuse_if_own(error, loaded.model_path);
    return;
  }
  require_readable_files(loaded.model_path, options);
}

}  // namespace sftbench
