// config/gpus.yaml alone: a child that measures needs no model and no experiment of the catalog,
// and reading those takes longer than all else that it does before it trains.
#pragma once

#include "sftbench/catalog/gpus.h"

namespace sftbench {

const GpuCatalog& shipped_gpus();

}  // namespace sftbench
