#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace laconic::plugin {

/// Threads that wait and do nothing else. An engine that cannot start its own threads may end the process: who holds as
/// many first, on all ranks at once, knows that they can be had.
class ReservedThreads {
 public:
  /// Throws Error that names `purpose` and how many could be started; these have ended then.
  ReservedThreads(int count, const std::string& purpose);
  ~ReservedThreads() { release(); }
  ReservedThreads(const ReservedThreads&) = delete;
  ReservedThreads& operator=(const ReservedThreads&) = delete;

  /// Ends them. Any number of times.
  void release();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace laconic::plugin
