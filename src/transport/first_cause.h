#pragma once

#include <exception>
#include <functional>
#include <mutex>
#include <string>

#include "base/memory.h"
#include "laconic/communicator.h"
#include "transport/failure.h"

namespace laconic {

/// Runs a body on each rank of a process and keeps the reason of a failure: the first exception that was not caused by
/// another rank's failure, or, if there is none, the first exception.
class FirstCause {
 public:
  /// Calls body(communicator). If it throws, the other ranks' waits fail. Throws nothing itself.
  void run(Communicator& communicator, const std::function<void(Communicator&)>& body) {
    try {
      body(communicator);
    } catch (const PeerFailure& error) {
      fail(communicator, error.what(), true);
    } catch (const std::exception& error) {
      fail(communicator, error_text(error), false);
    } catch (...) {
      fail(communicator, "it threw something that is no std::exception", false);
    }
  }

  void offer(std::exception_ptr error, bool caused_by_another) {
    std::lock_guard lock(mutex_);
    if (!error_ || (echo_ && !caused_by_another)) {
      error_ = std::move(error);
      echo_ = caused_by_another;
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  /// In a handler. The reason is copied first: once an exception is offered, another rank may replace and destroy it.
  void fail(Communicator& communicator, const std::string& reason, bool caused_by_another) {
    offer(std::current_exception(), caused_by_another);
    communicator.fail(reason);
  }

  std::mutex mutex_;
  std::exception_ptr error_;
  bool echo_ = false;
};

}  // namespace laconic
