// sftbench measure, the child's side of launch/child_measurement.h: measures the one job that its
// standard input holds, says on its heartbeat pipe how far it is, and hands the Measurement back.
// Not for people: it is not among the subcommands, and reads no command line, so that it starts
// quickly.
#pragma once

namespace sftbench {

// 0: the measurement was handed back, whatever its outcome; 2: this was not started by a parent.
int measure_for_parent();

}  // namespace sftbench
