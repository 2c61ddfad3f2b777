// Names beside the content that they name.
#pragma once

#include <functional>
#include <string_view>

namespace sftbench {

// Whether an input of a result tells nothing beside others that it has: the name of an own model,
// and of data of one's own, where digests of their content are among the inputs.
bool is_idle_name(std::string_view input, const std::function<bool(std::string_view)>& has);

}  // namespace sftbench
