// What the child process of a cell is told.
#pragma once

#include "sftbench/launch/child_measurement.h"
#include "sftbench/results/claim.h"
#include "sftbench/results/store.h"
#include "sftbench/sweep/cell.h"
#include "sftbench/sweep/sweep.h"

namespace sftbench {

ChildSpec child_spec(const Cell& cell, const CellPlan& plan, const Claim& claim, const Share& share,
                     const ResultStore& store, const SweepOptions& options);

}  // namespace sftbench
