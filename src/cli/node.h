// What launch/node_launch.h starts: `sftbench node`, on a host that ssh leads to, and `sftbench
// tether`. Neither is for people, and neither is among the subcommands.
#pragma once

namespace sftbench {

// Starts the ranks that standard input asks for, and returns when all of them have ended. Returns
// 0, or the status of the lowest rank that failed. The ranks are ended when standard input ends.
int node_for_parent();

// Becomes the program behind it, and ends with its parent. 127 when there is none.
int tether(char** words);

}  // namespace sftbench
