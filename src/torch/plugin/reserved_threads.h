#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace laconic::plugin {

/// Threads that only wait. An engine that cannot start its own threads may abort the process. Holding the same number
/// of threads first, on all ranks at once, shows that the system can start them.
class ReservedThreads {
 public:
  /// If not all can be started, throws an Error that names `purpose` and how many did start; those have then been
  /// joined.
  ReservedThreads(int count, const std::string& purpose);
  ~ReservedThreads() { release(); }
  ReservedThreads(const ReservedThreads&) = delete;
  ReservedThreads& operator=(const ReservedThreads&) = delete;

  /// Ends the threads. May be called any number of times.
  void release();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace laconic::plugin
