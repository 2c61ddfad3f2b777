// How the ranks of a job find each other: rank 0 listens, the others come to it, both prove that
// they have the job's secret (handshake.h), and the others say who they are. Rank 0 answers at
// once - accepted, or refused with the reason - and, when all are there, sends each the list of
// all.
//
// A rank of this job that cannot be used (another version of the program, another number of ranks,
// one that says itself that it was started wrongly) ends the rendezvous for everybody, for the rank
// in its place will not come any more. Who has the secret and no business here (another job's rank,
// a second one of the same number) is sent away and only mentioned should ranks be missing at the
// deadline. Who does not have it is dropped (reception.h), and moves nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ranks/connection.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {

struct Meeting {
  std::vector<RankInfo> ranks;  // in rank order
  // Rank 0's, by rank, none for itself; another rank's has one, to rank 0.
  std::vector<std::unique_ptr<Connection>> connections;
};

// What the secret is used for here (key_of_use).
inline constexpr const char* kRendezvousUse = "rendezvous";

// RunError(kNccl) and InputError as join_ranks says.
Meeting host_meeting(const RankPlace& place, const RankInfo& self);
Meeting come_to_meeting(const RankPlace& place, const RankInfo& self);

// decline_to_join's two sides. The guest's returns, or throws RunError(kNccl) when rank 0 was not
// there to listen; the host's returns the ranks that did not come.
std::vector<int> decline_as_host(const RankPlace& place, const RankInfo& self,
                                 const std::string& problem);
void decline_as_guest(const RankPlace& place, const RankInfo& self, const std::string& problem);

// How long a rank that was accepted waits beyond the deadline for rank 0 to say who is missing.
inline constexpr double kVerdictMarginSeconds = 2;

// Of who has proved to have the job's secret. Without one, ranks of one node recognize each other
// by their user.
bool is_trusted(const RankPlace& place, int connected_fd);

// Of the program that a place belongs to.
std::string version_of(const RankPlace& place);

// {0, 2, 3, 4, 7} -> "ranks 0, 2 to 4 and 7"; {2} -> "rank 2".
std::string ranks_text(const std::vector<int>& ranks);

// "600 s", "0.5 s".
std::string seconds_text(double seconds);

}  // namespace sftbench
