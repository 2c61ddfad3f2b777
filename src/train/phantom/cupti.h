// What CUPTI would say of the phantom device's kernels.
#pragma once

namespace sftbench::phantom {

// One launch; the mangled name, or null where it is not known.
void note_activity(const char* kernel);

}  // namespace sftbench::phantom
