#pragma once

// Items that a loop on the host produces one after another and a kernel reads, in batches that fit into its parameters.

#include "base/cuda/list.h"

#ifdef __CUDACC__
namespace laconic::cuda {

/// Calls give(list, count, number of the first item) for every kMostInParameters items that are added, and for the
/// rest when `finish` is called.
template <class T, class Give>
class Batches {
 public:
  explicit Batches(Give give) : give_(give) {}

  void add(const T& item) {
    list_.items[count_++] = item;
    if (count_ == kMostInParameters) finish();
  }
  void finish() {
    if (count_ == 0) return;
    give_(list_, count_, first_);
    first_ += count_;
    count_ = 0;
  }

 private:
  Give give_;
  InParameters<T> list_{};
  unsigned count_ = 0;
  unsigned first_ = 0;
};

}  // namespace laconic::cuda
#endif
