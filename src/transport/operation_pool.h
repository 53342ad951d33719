#pragma once

#include <memory>
#include <vector>

namespace laconic {

/// The operations of one communicator. They are reused, so nothing is allocated after warm-up.
template <class T>
class OperationPool {
 public:
  /// Returns a free operation, or a new one from make(), which returns std::unique_ptr<T>.
  template <class Make>
  T& take(Make&& make) {
    if (free_.empty()) {
      operations_.push_back(make());
      free_.reserve(operations_.size());  // so that giving back never allocates
      free_.push_back(operations_.back().get());
    }
    T& operation = *free_.back();
    free_.pop_back();
    return operation;
  }

  void give_back(T& operation) noexcept { free_.push_back(&operation); }

 private:
  std::vector<std::unique_ptr<T>> operations_;
  std::vector<T*> free_;
};

}  // namespace laconic
