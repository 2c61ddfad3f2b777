// Slurm's short forms of lists, as they stand in its variables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sftbench {

// "n[01-03,7],login" -> n01, n02, n03, n7, login. A name may have several brackets. InputError when
// it is not of that form.
std::vector<std::string> expand_host_list(std::string_view list);

// "2(x3),1" -> 2, 2, 2, 1.
std::vector<int> expand_task_counts(std::string_view list);

}  // namespace sftbench
