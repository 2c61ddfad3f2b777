# find_package(Torch): a libtorch's own package, but for the CPU engine against a PyTorch wheel. The package of a wheel with
# CUDA asks for a CUDA toolkit and links all of NVIDIA's libraries. The half for CPUs needs neither, and without them the same
# engine serves the wheels with and without CUDA.
find_file(TORCH_WHEEL_VERSION version.py PATHS ${CMAKE_PREFIX_PATH} NO_DEFAULT_PATH)
mark_as_advanced(TORCH_WHEEL_VERSION)
if(SFTBENCH_CUDA OR NOT TORCH_WHEEL_VERSION)
  find_package(Torch CONFIG REQUIRED)
  return()
endif()

file(STRINGS ${TORCH_WHEEL_VERSION} version REGEX "^__version__")
string(REGEX MATCH "[0-9]+[.][0-9]+[.][0-9]+" Torch_VERSION "${version}")
get_filename_component(TORCH_INSTALL_PREFIX ${TORCH_WHEEL_VERSION} DIRECTORY)
set(TORCH_INCLUDE_DIRS ${TORCH_INSTALL_PREFIX}/include ${TORCH_INSTALL_PREFIX}/include/torch/csrc/api/include)
set(TORCH_LIBRARIES ${TORCH_INSTALL_PREFIX}/lib/libtorch_cpu.so ${TORCH_INSTALL_PREFIX}/lib/libc10.so)
set(TORCH_CXX_FLAGS "")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Torch REQUIRED_VARS TORCH_LIBRARIES VERSION_VAR Torch_VERSION)
