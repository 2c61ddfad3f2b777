// The executable: everything else is in the modules (README, "How it is built").
#include "sftbench/cli/app.h"

int main(int argc, char** argv) {
  return sftbench::run_app(argc, argv);
}
