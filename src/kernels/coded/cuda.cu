#include "base/cuda/scan.h"
#include "base/workspace.h"
#include "kernels/coded/tally.h"
#include "kernels/coded/twins.h"

// Twins of kernels/coded. The entries of a scope lie one after another, so a warp that walks along it adds up what
// it finds of one scope and hands it over once.

namespace laconic::cuda {
namespace {

using coded::Extent;
using coded::key_of;
using coded::Tally;

/// ScopeCuts on a device.
struct Cuts {
  std::uint32_t each;
  const std::uint32_t* starts;
  std::uint32_t count;
  std::uint64_t first;  ///< the scope that has the number 0 here
  std::uint64_t last;   ///< number of the last one; an index outside, which an encoder refuses, counts as one of it

  __device__ std::uint64_t operator()(std::uint32_t index) const {
    const std::uint64_t number = number_of(index) - first;
    return number < last ? number : last;
  }

 private:
  __device__ std::uint64_t number_of(std::uint32_t index) const {
    if (count == 0) return index / each;
    std::uint32_t low = 0;
    for (std::uint32_t high = count; high - low > 1;) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (starts[middle] <= index) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

Cuts cuts_of(const ScopeCuts& cuts, ScopeSpan span) {
  return {cuts.each, cuts.device_starts.data(), static_cast<std::uint32_t>(cuts.device_starts.size()), span.first,
          span.count - 1};
}

/// Entries of a list.
struct List {
  const std::uint32_t* indices;
  const float* values;
  std::uint64_t size;
};

/// Steps of 32 entries that a warp makes along a list. Many save atomic additions; a short list has few, so that enough
/// warps share it.
unsigned steps_for(std::uint64_t size) { return size >= 1U << 22 ? 16 : 4; }

__device__ unsigned long long sum_of_warp(unsigned long long mine) {
#pragma unroll
  for (unsigned step = kWarp / 2; step > 0; step /= 2) mine += __shfl_xor_sync(kAllThreadsOfWarp, mine, step);
  return mine;
}

/// A warp's walk along its part of the list. Part has add(scope, value) for one entry of a lane, and hand_over(scope),
/// which all lanes call together after the last entry of a scope and which forgets what was added; alone(scope), which
/// one lane calls.
template <class Part>
__device__ void walk_list(const List& list, const Cuts& cuts, unsigned steps, Part part) {
  const std::uint64_t begin = (std::uint64_t{blockIdx.x} * (kThreads / kWarp) + warp()) * kWarp * steps;
  std::uint64_t scope = 0;
  bool open = false;
  for (unsigned step = 0; step < steps; ++step) {
    const std::uint64_t at = begin + step * kWarp;
    if (at >= list.size) break;
    const bool valid = at + lane() < list.size;
    const std::uint64_t i = valid ? at + lane() : list.size - 1;
    const std::uint64_t own = cuts(list.indices[i]);
    const std::uint64_t lowest = __shfl_sync(kAllThreadsOfWarp, own, 0);
    const std::uint64_t highest = __shfl_sync(kAllThreadsOfWarp, own, kWarp - 1);
    if (open && (lowest != scope || highest != scope)) {
      part.hand_over(scope);
      open = false;
    }
    if (valid) part.add(own, list.values[i]);
    if (lowest == highest) {
      scope = lowest;
      open = true;
    } else {
      if (valid) part.alone(own);
      __syncwarp();
    }
  }
  if (open) part.hand_over(scope);
}

struct Counting {
  Tally* tallies;
  std::uint32_t highest = 0;
  std::uint32_t count = 0;

  __device__ void add(std::uint64_t, float value) {
    highest = max(highest, key_of(value));
    ++count;
  }
  __device__ void alone(std::uint64_t scope) {
    atomicMax(&tallies[scope].highest, highest);
    atomicAdd(&tallies[scope].count, static_cast<unsigned long long>(count));
    highest = 0;
    count = 0;
  }
  __device__ void hand_over(std::uint64_t scope) {
    highest = __reduce_max_sync(kAllThreadsOfWarp, highest);
    count = __reduce_add_sync(kAllThreadsOfWarp, count);
    if (lane() == 0) alone(scope);
    highest = 0;
    count = 0;
  }
};

/// Sums of all magnitudes, or of those above the mean.
template <bool kAbove>
struct Summing {
  Tally* tallies;
  unsigned long long sum = 0;
  unsigned long long count = 0;

  __device__ void add(std::uint64_t scope, float value) {
    const Tally& tally = tallies[scope];
    if (!tally.finite() || (kAbove && !tally.is_above(value))) return;
    sum += tally.fixed(key_of(value));
    ++count;
  }
  __device__ void alone(std::uint64_t scope) {
    atomicAdd(kAbove ? &tallies[scope].above_sum : &tallies[scope].sum, sum);
    if (kAbove) atomicAdd(&tallies[scope].above, count);
    sum = 0;
    count = 0;
  }
  __device__ void hand_over(std::uint64_t scope) {
    sum = sum_of_warp(sum);
    count = sum_of_warp(count);
    if (lane() == 0) alone(scope);
    sum = 0;
    count = 0;
  }
};

struct Measuring {
  Extent* extents;
  Extent own = coded::kNoExtent;

  __device__ void add(std::uint64_t, float value) {
    own.least = min(own.least, key_of(value));
    own.most = max(own.most, key_of(value));
  }
  __device__ void alone(std::uint64_t scope) {
    atomicMin(&extents[scope].least, own.least);
    atomicMax(&extents[scope].most, own.most);
    own = coded::kNoExtent;
  }
  __device__ void hand_over(std::uint64_t scope) {
    own.least = __reduce_min_sync(kAllThreadsOfWarp, own.least);
    own.most = __reduce_max_sync(kAllThreadsOfWarp, own.most);
    if (lane() == 0) alone(scope);
    own = coded::kNoExtent;
  }
};

template <class T>
__global__ void start_kernel(T* scopes, std::uint64_t count, T value) {
  let_next_kernel_begin();
  for_each_entry(count, [=](std::uint64_t i) { scopes[i] = value; });
}

template <class Part>
__global__ void walk_kernel(List list, Cuts cuts, unsigned steps, Part part) {
  let_next_kernel_begin();
  wait_for_last_kernel();
  walk_list(list, cuts, steps, part);
}

__global__ void mean_kernel(Tally* tallies, std::uint64_t count, Status* status) {
  let_next_kernel_begin();
  wait_for_last_kernel();
  for_each_entry(count, [=](std::uint64_t i) {
    tallies[i].set_mean();
    if (!tallies[i].finite()) status->nonfinite = 1;
  });
}

__global__ void two_kernel(Tally* tallies, std::uint64_t count) {
  let_next_kernel_begin();
  wait_for_last_kernel();
  for_each_entry(count, [=](std::uint64_t i) { tallies[i].set_two(); });
}

__global__ void code_kernel(ValueFormat format, const std::uint32_t* indices, float* values, float* errors,
                            std::uint64_t n, Cuts cuts, const Tally* tallies) {
  wait_for_last_kernel();
  for_each_entry(n, [=](std::uint64_t i) {
    const float value = values[i];
    const float sent = tallies[cuts(indices[i])].coded(format, value);
    values[i] = sent;
    errors[i] = value - sent;
  });
}

__global__ void magnitudes_kernel(ValueFormat format, const Extent* extents, std::uint64_t count, float* magnitudes,
                                  Status* status) {
  let_next_kernel_begin();
  wait_for_last_kernel();
  const std::uint64_t each = magnitudes_of(format);
  for_each_entry(count, [=](std::uint64_t i) {
    const Extent extent = extents[i];
    const bool known = extent.finite() && extent.least <= extent.most;
    magnitudes[i * each] = known ? __uint_as_float(extent.least) : 0.0F;
    if (each == 2) magnitudes[i * each + 1] = known ? __uint_as_float(extent.most) : 0.0F;
    if (!extent.finite()) status->nonfinite = 1;
  });
}

__global__ void fields_kernel(ValueFormat format, List list, Cuts cuts, const Extent* extents, std::uint32_t* fields,
                              Status* status) {
  wait_for_last_kernel();
  for_each_entry(list.size, [=](std::uint64_t i) {
    const Extent extent = extents[cuts(list.indices[i])];
    fields[i] = extent.field(list.values[i]);
    if (!extent.finite() || extent.describes(format, key_of(list.values[i]))) return;
    if (status->fault != PayloadFault::none) return;
    status->fault_found = i;
    status->fault = PayloadFault::wrong_norm;
  });
}

__global__ void values_kernel(ValueFormat format, const std::uint32_t* indices, const std::uint32_t* fields,
                              const float* magnitudes, float* values, std::uint64_t n, Cuts cuts) {
  const std::uint64_t each = magnitudes_of(format);
  for_each_entry(n, [=](std::uint64_t i) {
    values[i] = coded::value_of(format, fields[i], magnitudes + cuts(indices[i]) * each);
  });
}

template <class Part>
void walk(Chain& kernels, const List& list, const Cuts& cuts, const Part& part) {
  const unsigned steps = steps_for(list.size);
  kernels.run(blocks_for(list.size, steps), kThreads, walk_kernel<Part>, list, cuts, steps, part);
}

}  // namespace

void code_values(Place& place, ValueFormat format, const ScopeCuts& cuts, ScopeSpan span, SparseView entries,
                 View<float> errors, StatusView status) {
  const Workspace::Scope scope(place.workspace());
  Tally* tallies = place.workspace().take<Tally>(span.count).data();
  const Launch launch(place, "code_values");
  Chain kernels(launch);
  const Cuts own = cuts_of(cuts, span);
  const List list{entries.indices.data(), entries.values.data(), entries.size()};
  kernels.run_over(span.count, start_kernel<Tally>, tallies, span.count, Tally{});
  walk(kernels, list, own, Counting{tallies});
  walk(kernels, list, own, Summing<false>{tallies});
  kernels.run_over(span.count, mean_kernel, tallies, span.count, status.data());
  if (format == ValueFormat::two) {
    walk(kernels, list, own, Summing<true>{tallies});
    kernels.run_over(span.count, two_kernel, tallies, span.count);
  }
  kernels.run_over(list.size, code_kernel, format, list.indices, entries.values.data(), errors.data(), list.size,
               own, tallies);
}

void coded_fields(Place& place, ValueFormat format, const ScopeCuts& cuts, ScopeSpan span, ConstSparseView entries,
                  View<float> magnitudes, View<std::uint32_t> fields, StatusView status) {
  const Workspace::Scope scope(place.workspace());
  Extent* extents = place.workspace().take<Extent>(span.count).data();
  const Launch launch(place, "coded_fields");
  Chain kernels(launch);
  const Cuts own = cuts_of(cuts, span);
  const List list{entries.indices.data(), entries.values.data(), entries.size()};
  kernels.run_over(span.count, start_kernel<Extent>, extents, span.count, coded::kNoExtent);
  if (list.size > 0) walk(kernels, list, own, Measuring{extents});
  kernels.run_over(span.count, magnitudes_kernel, format, extents, span.count, magnitudes.data(), status.data());
  kernels.run_over(list.size, fields_kernel, format, list, own, extents, fields.data(), status.data());
}

void coded_values(Place& place, ValueFormat format, const ScopeCuts& cuts, ScopeSpan span,
                  View<const std::uint32_t> indices, View<const std::uint32_t> fields, View<const float> magnitudes,
                  View<float> values) {
  launch_over(place, "coded_values", indices.size(), values_kernel, format, indices.data(), fields.data(),
              magnitudes.data(), values.data(), indices.size(), cuts_of(cuts, span));
}

}  // namespace laconic::cuda
