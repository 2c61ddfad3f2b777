// What launch/node_launch.h starts: `sftbench node`, on a host that ssh leads to, and `sftbench
// tether`. Neither is for people, and neither is among the subcommands.
#pragma once

namespace sftbench {

// Starts the ranks that its standard input asks for and ends when they have: with rank 0's status,
// else that of the first that failed. When the standard input ends, so do they.
int node_for_parent();

// Becomes the program behind it, and ends with its parent. 127 when there is none.
int tether(char** words);

}  // namespace sftbench
