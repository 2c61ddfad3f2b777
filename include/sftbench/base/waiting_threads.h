// How threads of OpenMP wait for one another.
#pragma once

namespace sftbench {

// Threads that meet at the end of a loop look for each other a few thousand times, and then sleep.
// libgomp's own choice is 300,000 looks, which burns the time slices that the late thread needs:
// beside other programs a step took 1.5 to 2.5 times as long. Alone on the machine both are equally
// fast (bench/results/training-step.md). Sets GOMP_SPINCOUNT, unless it or OMP_WAIT_POLICY is set.
// libgomp reads it when it is loaded, so this comes before.
void limit_spinning();

}  // namespace sftbench
