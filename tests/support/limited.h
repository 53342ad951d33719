#pragma once

#include <sys/resource.h>

#include <cstddef>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace laconic::test {

/// Whether with_little_memory can be used: sanitizers reserve far more addresses than a limit could grant.
bool can_limit_memory();

/// What the body returns in a fork of this process that may take `bytes` more of addresses (RLIMIT_AS, which binds root
/// too), for its memory and the stacks of its threads. "(did not end: ...)" after 30 seconds or at a crash.
std::string with_little_memory(std::size_t bytes, const std::function<std::string()>& body);

/// As long as it lives, no further thread starts in this process: threads of its own have taken all addresses that a
/// limit leaves for stacks.
class NoMoreThreads {
 public:
  NoMoreThreads();
  ~NoMoreThreads();
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

 private:
  rlimit before_{};
  std::promise<void> end_;
  std::vector<std::thread> threads_;
};

}  // namespace laconic::test
