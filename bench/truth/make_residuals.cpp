// Writes config/residuals.json of evidence. usage: make_residuals CONFIG EVIDENCE... >FILE
// CONFIG: an actuator configuration with the model_map of the evidence. residuals.sh calls it.
#include <iostream>

#include "fit_residuals.h"
#include "sftbench/plan/actuator.h"

int main(int argc, char** argv) {
  using namespace sftbench;
  if (argc < 3) {
    std::cerr << "usage: make_residuals CONFIG EVIDENCE...\n";
    return 2;
  }
  try {
    std::vector<Diagnostic> warnings;
    const ActuatorSettings settings = read_actuator_settings(argv[1], nullptr, {}, warnings);
    std::vector<Evidence> rows;
    for (int i = 2; i < argc; ++i) {
      for (Evidence& row : read_evidence(argv[i])) rows.push_back(std::move(row));
    }
    std::cout << text_of(compare_all(rows, settings, Catalog::shipped()));
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 4;
  }
  return 0;
}
