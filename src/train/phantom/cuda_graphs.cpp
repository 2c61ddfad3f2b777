// The CUDA runtime (libcudart) over graphs of the phantom device. Signatures and meanings are those
// of cuda_runtime_api.h.
#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "phantom/context.h"
#include "phantom/graphs.h"
#include "phantom/launches.h"
#include "phantom/streams.h"

namespace sftbench::phantom {
namespace {

// What CUDA calls a graph, and one that is ready to run, are addresses of shared ones.
using SharedGraph = std::shared_ptr<Graph>;

SharedGraph& graph_at(void* graph) {
  return *static_cast<SharedGraph*>(graph);
}

cudaStreamCaptureStatus status_of(uint64_t id) {
  return id == 0 ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
}

}  // namespace
}  // namespace sftbench::phantom

using namespace sftbench::phantom;  // NOLINT: every function below is a name of CUDA's

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return capture().begin(id(stream)) ? cudaSuccess : noted(cudaErrorStreamCaptureUnsupported);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  SharedGraph recorded = capture().end(id(stream));
  *graph = nullptr;
  if (recorded == nullptr) return noted(cudaErrorStreamCaptureInvalidated);
  *graph = reinterpret_cast<cudaGraph_t>(new SharedGraph(std::move(recorded)));
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = status_of(capture().id_of(id(stream)));
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* capture_id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* number) {
  const uint64_t found = capture().id_of(id(stream));
  *status = status_of(found);
  if (capture_id != nullptr) *capture_id = found;
  if (graph != nullptr) *graph = nullptr;
  if (dependencies != nullptr) *dependencies = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (number != nullptr) *number = 0;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  thread_local cudaStreamCaptureMode of_thread = cudaStreamCaptureModeGlobal;
  std::swap(of_thread, *mode);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* number) {
  *number = static_cast<size_t>(graph_at(graph)->nodes);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* ready, cudaGraph_t graph,
                                          unsigned long long) {
  *ready = reinterpret_cast<cudaGraphExec_t>(new SharedGraph(graph_at(graph)));
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph,
                                 unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(ready, graph, flags);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream) {
  if (const cudaError_t state = device_state(); state != cudaSuccess) return state;
  const SharedGraph graph = graph_at(ready);
  launches().count_graph(graph->nodes);
  streams().at(id(stream)).put([graph] { graph->run(); });
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete &graph_at(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready) {
  delete &graph_at(ready);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  const auto work = [=] { function(data); };
  if (!capture().record(id(stream), work)) streams().at(id(stream)).put(work);
  return cudaSuccess;
}

}  // extern "C"
