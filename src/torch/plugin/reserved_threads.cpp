#include "torch/plugin/reserved_threads.h"

#include "base/no_thread.h"

namespace laconic::plugin {

ReservedThreads::ReservedThreads(int count, const std::string& purpose) {
  const auto wait = [this] {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ending_; });
  };
  threads_.reserve(static_cast<std::size_t>(count));
  try {
    for (int i = 0; i < count; ++i) threads_.emplace_back(wait);
  } catch (const std::exception& reason) {
    const std::size_t started = threads_.size();
    release();
    throw no_thread(purpose + " needs " + std::to_string(count) + " threads and " + std::to_string(started) +
                        " could be started",
                    "threads= or the ranks per machine", reason);
  }
}

void ReservedThreads::release() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace laconic::plugin
