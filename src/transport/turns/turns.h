#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace laconic::turns {

// Sanitizers cannot follow a change of stacks.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kStacksMayChange = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kStacksMayChange = false;
#else
constexpr bool kStacksMayChange = true;
#endif
#else
constexpr bool kStacksMayChange = true;
#endif

/// Stacks that take turns on one thread. They share what the C++ library keeps per thread, so a body must not call next
/// while it handles an exception.
class Turns {
 public:
  explicit Turns(std::size_t count) : fibers_(count) {}

  /// Runs body(0), …, body(count − 1), each on its own stack, and returns when all have ended. A body must not throw.
  void run(const std::function<void(std::size_t)>& body);

  /// Switches to the next stack that has not ended. Returns when it is this stack's turn again.
  void next();

 private:
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack;
    bool ended = false;
  };

  static void enter();
  void prepare(Fiber& fiber);
  std::size_t following(std::size_t from) const;

  static thread_local Turns* running_;
  const std::function<void(std::size_t)>* body_ = nullptr;
  std::vector<Fiber> fibers_;
  ucontext_t home_{};
  std::size_t current_ = 0;
  std::size_t alive_ = 0;
};

}  // namespace laconic::turns
