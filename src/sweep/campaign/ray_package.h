// A working directory as Ray's nodes unpack it: a zip archive of a few small files.
#pragma once

#include <map>
#include <string>

namespace sftbench {

// The archive, the same bytes for the same files. std::runtime_error when there is no room for it.
std::string ray_package(const std::map<std::string, std::string>& files);

// "_ray_pkg_0123...zip": what Ray calls a package, by what is in it.
std::string ray_package_name(const std::string& package);

}  // namespace sftbench
