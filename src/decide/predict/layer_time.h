// Seconds that one layer, or the head, takes in each pass of one micro-batch:
//
//   products     FLOPs / (rate of large products x share of the last wave that is full). A product
//                of M x N results is cut into tiles of 128 x 256; multiprocessors work on one tile
//                each, and the last wave of tiles is half full on average (cuBLAS's tiles, NVIDIA's
//                "Matrix Multiplication Background", section 4). Small products have tiles of
//                64 x 64, which are half as fast
//   attention    FLOPs / the rate that flash attention reaches
//   elements     bytes of norms, rotations, activations, residuals and adapters / bandwidth
//   launches     kernels x the host's time for each: a pass takes no less. On a CPU it is time of
//                its own
#pragma once

#include "predict/model_work.h"
#include "sftbench/predict/cost_model.h"

namespace sftbench {

struct PassSeconds {
  double forward = 0;
  double recomputed = 0;
  double backward = 0;
};

struct WorkSeconds {
  PassSeconds layer;
  PassSeconds head;
};

// What model_work() found of the same job and machine.
WorkSeconds work_seconds(const TrainingJob& job, const ModelWork& work, const MachineModel& machine,
                         Recompute recompute);

// FLOP/s of a product of rows x columns results over `inner`: between those that were measured,
// near shapes first (inverse distance weighting, Shepard 1968, in doublings). REQUIRES: some were.
double rate_of_product(const MachineModel& machine, double rows, double columns, double inner);

// The share by which a product of rows x columns takes longer than its FLOPs say: 0 for none.
double tail_of_product(double rows, double columns, int64_t multiprocessors);

}  // namespace sftbench
