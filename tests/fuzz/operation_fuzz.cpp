// Operation files are read from strangers. Whatever the bytes are, the answer is an operation or an
// InputError: no crash, no hang, no other exception; and an operation that was read walks.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/space/operation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  using namespace sftbench;
  static const Space space =
      read_space_file((resource_directory() / "experiments/spaces/gpu_batch_sizes.yaml").string(),
                      Catalog::shipped());
  try {
    const Operation operation =
        parse_operation({reinterpret_cast<const char*>(data), size_bytes}, "fuzz.yaml");
    Walk walk(space, operation, size_bytes, [](int64_t entity, size_t experiment) {
      return static_cast<Recorded>((static_cast<size_t>(entity) + experiment) % 3);
    });
    int64_t steps = 0;
    while (const auto step = walk.next()) {
      check(step->entity >= 0 && step->entity < space.entity_count(), "a step is in the space");
      ++steps;
    }
    check(steps <= 2 * space.entity_count(), "no measurement comes twice");
  } catch (const InputError&) {
  }
  return 0;
}
