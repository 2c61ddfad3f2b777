// Collectives over Gloo, for ranks on CPUs. One thread per communicator runs the operations in the
// order in which they were started; the tensors' memory is sent from and received into.
//
// An operation that is not done within RankPlace::communication_timeout_s of its turn, or whose
// peer is gone, fails with RunError(kNccl) that says which it was; so do all that follow. Where the
// rank group knows who failed, the error is that rank's own.
//
// Sent, of S the whole array's bytes and N ranks, beside what communicator.h says: an all-reduce of
// at most kOneLatencyBytes goes as everybody's array to everybody, S (N-1); a broadcast passes
// through a chain of ranks that starts at the root: S, the last one nothing; a barrier no payload.
//
// Kept between operations: the received chunks of sums, 2 (N-1) of at most 1 MiB; and for
// all-reduces of sizes that N does not divide, their padded array.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sftbench/parallel/process_mesh.h"

namespace sftbench {

bool has_gloo();  // this build

// Makes communicators of this process, which share the thread that receives. `scope` is a prefix of
// keys in the group's store that nothing else uses. RunError(kUnsupported) in a build without Gloo.
ProcessMesh::MakeCommunicator gloo_communicators(RankGroup& group, const std::string& scope);

inline constexpr int64_t kOneLatencyBytes = 4096;

}  // namespace sftbench
