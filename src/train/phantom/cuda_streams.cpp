// The CUDA runtime (libcudart) over streams of the phantom device. Signatures and meanings are
// those of cuda_runtime_api.h.
#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <utility>

#include "phantom/context.h"
#include "phantom/graphs.h"
#include "phantom/streams.h"

namespace sftbench::phantom {
namespace {

Stream& stream_of(cudaStream_t stream) {
  return streams().at(id(stream));
}
// What CUDA calls an event is the address of a shared one: a stream may still hold it.
using SharedEvent = std::shared_ptr<Event>;
SharedEvent& event_of(cudaEvent_t event) {
  return *reinterpret_cast<SharedEvent*>(event);
}

// The host cannot wait for work that is only recorded: as on a device, the capture is lost.
cudaError_t not_while_capturing() {
  capture().break_off();
  return noted(cudaErrorStreamCaptureUnsupported);
}

bool is_captured(cudaStream_t stream) {
  return capture().id_of(id(stream)) != 0;
}

}  // namespace
}  // namespace sftbench::phantom

using namespace sftbench::phantom;  // NOLINT: every function below is a name of CUDA's

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = reinterpret_cast<cudaStream_t>(streams().create());
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  streams().destroy(id(stream));
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (is_captured(stream)) return not_while_capturing();
  stream_of(stream).finish();
  return device_state();
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (is_captured(stream)) return not_while_capturing();
  return stream_of(stream).idle() ? cudaSuccess : noted(cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  event_of(event)->is_of_capture() ? capture().join(id(stream))
                                   : stream_of(stream).wait(event_of(event));
  return cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned) {
  stream_of(stream).put([=] { callback(stream, cudaSuccess, data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new SharedEvent(std::make_shared<Event>()));
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &event_of(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  stream_of(stream).record(event_of(event));
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event_of(event)->is_of_capture()) return not_while_capturing();
  return event_of(event)->happened() ? cudaSuccess : noted(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event_of(event)->is_of_capture()) return not_while_capturing();
  Stream::finish(*event_of(event));
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const std::chrono::duration<float, std::milli> elapsed =
      event_of(end)->time() - event_of(start)->time();
  *milliseconds = elapsed.count();
  return cudaSuccess;
}

}  // extern "C"
