#pragma once

// Items that a loop on the CPU produces one after another and a kernel reads, in batches that fit into its parameters.

#include "base/cuda/list.h"

#ifdef __CUDACC__
namespace laconic::cuda {

/// Items of a batch: a thread each, and no more than a kernel takes as parameters beside some others.
template <class T>
inline constexpr unsigned kMostInBatch = std::min<std::size_t>(kThreads, 3'584 / sizeof(T)) / kWarp * kWarp;

template <class T>
using Batch = InParameters<T, kMostInBatch<T>>;

/// Calls give(list, count, number of the first item) for every kMostInBatch items that are added, and for the rest when
/// `finish` is called.
template <class T, class Give>
class Batches {
 public:
  explicit Batches(Give give) : give_(give) {}

  void add(const T& item) {
    list_.items[count_++] = item;
    if (count_ == kMostInBatch<T>) finish();
  }
  void finish() {
    if (count_ == 0) return;
    give_(list_, count_, first_);
    first_ += count_;
    count_ = 0;
  }

 private:
  Give give_;
  Batch<T> list_{};
  unsigned count_ = 0;
  unsigned first_ = 0;
};

}  // namespace laconic::cuda
#endif
