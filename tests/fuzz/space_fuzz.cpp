// Space files and actuator configurations are read from strangers. Whatever the bytes are, the
// answer is a space or an InputError: no crash, no hang, no other exception; and a space that was
// read expands.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sftbench/base/error.h"
#include "sftbench/space/expansion.h"
#include "sftbench/space/space.h"
#include "sftbench/space/validity.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  using namespace sftbench;
  const Catalog& catalog = Catalog::shipped();
  try {
    const Space space =
        parse_space({reinterpret_cast<const char*>(data), size_bytes}, "fuzz.yaml", catalog);
    for (const int64_t index : {int64_t{0}, space.entity_count() / 2, space.entity_count() - 1}) {
      const Entity entity = space.entity(index);
      for (const ExperimentReference& reference : space.experiments) {
        validate(make_request(entity, reference).inputs, catalog.models);
      }
      Expansion expansion(space, catalog.models, index);
      check(expansion.entity_id() == entity_id(entity), "both ways give one id");
      for (size_t k = 0; k < space.experiments.size(); ++k) expansion.violations(k);
      expansion.advance();
    }
  } catch (const InputError&) {
  }
  return 0;
}
