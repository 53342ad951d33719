#pragma once

#include <sys/types.h>

#include <string>

namespace laconic::plugin {

/// The process in which an object with threads and connections was made. A fork of it has neither and would wait for
/// them forever.
class OwnProcess {
 public:
  OwnProcess();

  bool is_this() const;
  /// In a fork, throws an InvalidConfig: `call` of `what` must not be made there.
  void require(const char* call, const char* what) const;

 private:
  pid_t id_;
};

}  // namespace laconic::plugin
