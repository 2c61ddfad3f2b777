// sftbench rank, one of the processes that launch/ranked_engine.h starts: trains as one rank of the
// job that its standard input holds, and tells its parent what happens. Its standard error is its
// log. Not for people: it is not among the subcommands, and reads no command line.
#pragma once

namespace sftbench {

// 0: the parent was told how it ended; 2: this was not started by a parent.
int rank_for_parent();

}  // namespace sftbench
