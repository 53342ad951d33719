#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace laconic {

/// Threads that run loops. The caller of `run` works too, so a pool of one thread starts none.
class ThreadPool {
 public:
  /// Throws Error if not all threads can be started; the threads that did start have then been joined.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(part) for each part in [0, parts), on any thread, and returns when all are done. If a part throws, the
  /// exception is rethrown here after the others have ended. No allocation.
  void run(std::size_t parts, FunctionRef<void(std::size_t part)> body);

 private:
  void work();
  void take_parts();
  void stop();

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::uint64_t generation_ = 0;
  std::atomic<std::uint64_t> published_{0};
  std::size_t busy_ = 0;
  bool stopping_ = false;
  const FunctionRef<void(std::size_t)>* body_ = nullptr;
  std::size_t parts_ = 0;
  std::atomic<std::size_t> next_{0};
  std::exception_ptr error_;
};

/// Part `part` of `parts` nearly equal parts of [0, size), each beginning at a multiple of `alignment`.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
};
Range part_of(std::size_t size, std::size_t part, std::size_t parts, std::size_t alignment);

/// Splits [0, size) into one contiguous range per thread, cut at multiples of `alignment`, and calls body(range) for
/// each range that is not empty. For loops whose result does not depend on the cuts. Short loops run on the caller's
/// thread.
void parallel_ranges(ThreadPool& pool, std::size_t size, std::size_t alignment, FunctionRef<void(Range)> body);

}  // namespace laconic
