#include "sftbench/advise/row_divisions.h"

#include "sftbench/base/error.h"

namespace sftbench {

std::vector<RowDivision> row_divisions(const MeasurementRequest& request, const TrainingJob& job,
                                       Oracle& oracle) {
  const int64_t ranks = job.device.ranks;
  std::vector<RowDivision> divisions;
  for (int64_t among = 1; among <= ranks; ++among) {
    if (ranks % among != 0) continue;
    RowDivision division{
        among, ranks / among * job.batches.per_device_batch_size, std::nullopt, {}};
    MeasurementRequest divided = request;
    divided.inputs["context_parallel"] = among;
    divided.inputs["batch_size"] = division.batch_size;
    try {
      division.prediction = oracle.predict(divided);
    } catch (const RunError& error) {
      division.refusal = error.what();
    }
    divisions.push_back(std::move(division));
  }
  return divisions;
}

const RowDivision* best_division(const std::vector<RowDivision>& divisions) {
  const RowDivision* best = nullptr;
  for (const RowDivision& division : divisions) {
    if (!division.fits()) continue;
    const bool better = best == nullptr || division.prediction->positions_per_second() >
                                               best->prediction->positions_per_second();
    if (better) best = &division;
  }
  return best;
}

}  // namespace sftbench
