// Streams do their work late: when somebody waits for them, or gives them a copy to pinned memory, which first lets
// them do what they were given before. So what the CPU reads, or another stream uses, without a wait is not there yet.
// LACONIC_EMULATION_LATE=0 in the environment lets them work at once.

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "calls.h"
#include "launch.h"
#include "memory.h"

struct CUstream_st {
  explicit CUstream_st(bool follows) : follows_default(follows) {}

  void give(std::function<void()> work) {
    const std::lock_guard lock(mutex);
    given.push_back(std::move(work));
  }
  /// Does the first piece of work that is left. False if none was.
  bool finish_one() {
    const std::lock_guard one_at_a_time(running);
    std::function<void()> work;
    {
      const std::lock_guard lock(mutex);
      if (given.empty()) return false;
      work = std::move(given.front());
      given.pop_front();
    }
    work();
    return true;
  }
  void finish() {
    while (finish_one()) {
    }
  }

  const bool follows_default;  ///< work of the default stream waits for it
  std::mutex running;
  std::mutex mutex;
  std::deque<std::function<void()>> given;
};

struct CUevent_st {
  std::chrono::steady_clock::time_point recorded{};
};

namespace laconic::emulation {
namespace {

/// All streams but the default one.
class Streams {
 public:
  static Streams& instance() {
    static Streams& streams = *new Streams;  // never destroyed: places may outlive static objects
    return streams;
  }

  CUstream_st* make(bool follows_default) {
    const std::lock_guard lock(mutex_);
    return streams_.emplace_back(std::make_shared<CUstream_st>(follows_default)).get();
  }
  void destroy(CUstream_st* stream) {
    stream->finish();
    const std::lock_guard lock(mutex_);
    std::erase_if(streams_, [stream](const auto& each) { return each.get() == stream; });
  }
  void finish(bool all) {
    std::vector<std::shared_ptr<CUstream_st>> streams;
    {
      const std::lock_guard lock(mutex_);
      streams = streams_;
    }
    for (const auto& each : streams) {
      if (all || each->follows_default) each->finish();
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<CUstream_st>> streams_;
};

/// The default stream begins when those that follow it have ended, and does its work at once.
void finish(cudaStream_t stream) { stream != nullptr ? stream->finish() : Streams::instance().finish(false); }

bool works_late() {
  static const char* const setting = std::getenv("LACONIC_EMULATION_LATE");
  return setting == nullptr || std::string_view(setting) != "0";
}

void move(void* to, const void* from, std::size_t bytes) {
  const OpenMemory open;
  std::memmove(to, from, bytes);
}

std::vector<char> bytes_now(const void* from, std::size_t bytes) {
  const OpenMemory open;
  const char* const begin = static_cast<const char*>(from);
  return {begin, begin + bytes};
}

bool right_direction(const void* to, const void* from, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) return true;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return is_device_memory(to) == to_device && is_device_memory(from) == from_device;
}

}  // namespace

void give(cudaStream_t stream, std::function<void()> work) {
  if (stream == nullptr) {
    finish(stream);
    return work();
  }
  stream->give(std::move(work));
  if (!works_late()) stream->finish();
}

void finish_streams() { Streams::instance().finish(true); }

}  // namespace laconic::emulation

using namespace laconic::emulation;

// Copies.

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (!right_direction(to, from, kind)) return noted(cudaErrorInvalidValue);
  ++calls_of_thread().copies;
  const auto write = [to](const std::vector<char>& read) { move(to, read.data(), read.size()); };
  if (!is_device_memory(to) && !is_pinned_memory(to)) {  // CUDA returns when the bytes are there
    finish(stream);
    move(to, from, bytes);
  } else if (!is_device_memory(from) && !is_pinned_memory(from)) {  // CUDA returns when the bytes have been read
    give(stream, [write, read = bytes_now(from, bytes)] { write(read); });
  } else if (is_pinned_memory(to) && stream != nullptr) {
    finish(stream);  // the bytes to read, and what else uses the memory, before the poison
    std::vector<char> read = bytes_now(from, bytes);
    if (works_late()) std::memset(to, kPoison, bytes);
    give(stream, [write, read = std::move(read)] { write(read); });
  } else {
    give(stream, [=] { move(to, from, bytes); });
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (!is_device_memory(memory) && !is_pinned_memory(memory)) return noted(cudaErrorInvalidValue);
  ++calls_of_thread().copies;
  give(stream, [=] {
    const OpenMemory open;
    std::memset(memory, value, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}

// Streams, and memory in their order.

cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t /*stream*/) {
  return cudaMalloc(memory, bytes);
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t /*stream*/) { return cudaFree(memory); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  *stream = Streams::instance().make(flags != cudaStreamNonBlocking);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Streams::instance().destroy(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ++calls_of_thread().waits;
  finish(stream);
  return cudaSuccess;
}
/// Each question gets one piece of work done.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return stream != nullptr && stream->finish_one() ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  finish_streams();
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  give(stream, [function, data] { function(data); });
  return cudaSuccess;
}

// Events are not told apart from their streams: who waits for one waits for all streams.

cudaError_t cudaStreamWaitEvent(cudaStream_t /*stream*/, cudaEvent_t /*event*/, unsigned /*flags*/) {
  return cudaDeviceSynchronize();
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  finish_streams();
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  give(stream, [event] { event->recorded = std::chrono::steady_clock::now(); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t /*event*/) { return cudaDeviceSynchronize(); }
cudaError_t cudaEventSynchronize(cudaEvent_t /*event*/) { return cudaDeviceSynchronize(); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->recorded - begin->recorded).count();
  return cudaSuccess;
}
