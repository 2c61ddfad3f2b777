// cuBLAS and cuDNN where nothing is computed: calls that libtorch makes on its way to a product are
// counted and succeed. All other functions of all other libraries are generated stand-ins, which
// end here, too (cmake/phantom_symbols.cmake).
#include <cublasLt.h>
#include <cublas_v2.h>

#include <cstring>
#include <string_view>

#include "phantom/context.h"
#include "phantom/launches.h"
#include "phantom/settings.h"

using namespace sftbench::phantom;  // NOLINT: most functions below are names of NVIDIA's

extern "C" {

// What a generated stand-in returns. Only a product may be left out without anybody's knowing:
// cuBLAS answers with numbers in memory that nobody reads here.
int sftbench_phantom_call(const char* function) {
  const bool product = std::string_view(function).substr(0, 6) == "cublas";
  if (!product || settings().computes()) return unsupported(function);
  launches().count_call(function);
  return 0;
}

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  static int something = 0;
  *handle = reinterpret_cast<cublasHandle_t>(&something);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t, cublasPointerMode_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetMathMode(cublasHandle_t, cublasMath_t* mode) {
  *mode = CUBLAS_DEFAULT_MATH;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t, cublasPointerMode_t* mode) {
  *mode = CUBLAS_POINTER_MODE_HOST;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t,
                                        cudaDataType_t) {
  static int something = 0;
  *description = reinterpret_cast<cublasLtMatmulDesc_t>(&something);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType, uint64_t,
                                          uint64_t, int64_t) {
  static int something = 0;
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(&something);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  static int something = 0;
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(&something);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t,
                                              const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t,
                                                cublasLtMatrixLayoutAttribute_t, const void*,
                                                size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* returned) {
  std::memset(results, 0, sizeof *results);
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

// Above 9.15 libtorch 2.11 prefers cuDNN's attention on Hopper. Where the host computes, it stands
// in for that, too. Elsewhere libtorch's own flash kernels are launches like any other.
size_t cudnnGetVersion() {
  return settings().computes() ? 91900 : 91000;
}
size_t cudnnGetCudartVersion() {
  return 13000;
}
const char* cudnnGetErrorString(int) {
  return "phantom device: no cuDNN";
}

}  // extern "C"
