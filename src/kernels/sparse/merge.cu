#include "base/cuda/list.h"
#include "base/cuda/scan.h"
#include "kernels/sparse/twins.h"

// Twin of merge_sum. Each block of threads merges its range of the index space, a tile of it at a time: sums of the
// tile lie in shared memory, with a bit for each index that some part has. Parts are added one after another, and
// indices of one part are distinct, so every sum is taken in rank order without atomics. A first pass over the same
// tiles only counts, so that the second knows where its range of the result begins.

namespace laconic::cuda {
namespace {

constexpr unsigned kTile = 8192;
constexpr unsigned kTileWords = kTile / 32;
constexpr unsigned kWarps = kThreads / kWarp;
constexpr unsigned kMostBlocks = 1024;
constexpr std::uint64_t kEntriesABlock = 1024;  ///< fewer are not worth one more block
static_assert(kTileWords == kThreads, "a thread counts one word");

struct Part {
  const std::uint32_t* indices;
  const float* values;
  std::uint64_t size;
};

/// Where a block stands in one part.
struct Cursor {
  std::uint64_t begin;  ///< the first entry of the tile
  std::uint64_t end;    ///< behind its last
};

/// Scratch of the launch.
struct Scratch {
  Cursor* cursors;        ///< one per block and part
  std::uint64_t* counts;  ///< entries of the result, one per block
};

__device__ std::uint64_t first_at_least(const Part& part, std::uint64_t index) {
  std::uint64_t low = 0;
  for (std::uint64_t high = part.size; low < high;) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (part.indices[middle] < index) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// This block's range [begin, end) of the indices from the least to the greatest of all parts.
struct IndexRange {
  std::uint64_t begin;
  std::uint64_t end;
};

template <class Parts>
__device__ IndexRange range_of_block(const Parts& parts, unsigned count) {
  __shared__ std::uint32_t least;
  __shared__ std::uint32_t greatest;
  if (threadIdx.x == 0) {
    least = ~0U;
    greatest = 0;
  }
  __syncthreads();
  for (unsigned part = threadIdx.x; part < count; part += kThreads) {
    const Part each = parts[part];
    if (each.size == 0) continue;
    atomicMin(&least, each.indices[0]);
    atomicMax(&greatest, each.indices[each.size - 1]);
  }
  __syncthreads();
  const std::uint64_t end = std::uint64_t{greatest} + 1;
  const std::uint64_t width = (end - least + gridDim.x - 1) / gridDim.x;
  const std::uint64_t begin = least + blockIdx.x * width;
  return {begin < end ? begin : end, begin + width < end ? begin + width : end};
}

/// The least index that is left in any part, or `end`.
template <class Parts>
__device__ std::uint64_t next_index(const Parts& parts, unsigned count, const Cursor* cursors, std::uint64_t end) {
  __shared__ unsigned long long next;
  if (threadIdx.x == 0) next = end;
  __syncthreads();
  for (unsigned part = threadIdx.x; part < count; part += kThreads) {
    const Part each = parts[part];
    const std::uint64_t at = cursors[part].begin;
    if (at < each.size) atomicMin(&next, static_cast<unsigned long long>(each.indices[at]));
  }
  __syncthreads();
  const std::uint64_t found = next;
  __syncthreads();  // the next call writes it
  return found;
}

/// Finds the end of the tile [base, end) in every part, a warp a part, and marks the indices.
template <class Parts>
__device__ void mark_tile(const Parts& parts, unsigned count, Cursor* cursors, std::uint64_t base, std::uint64_t end,
                          std::uint32_t* touched) {
  for (unsigned part = warp(); part < count; part += kWarps) {
    const Part each = parts[part];
    std::uint64_t at = cursors[part].begin;
    for (unsigned found = kWarp; found == kWarp; at += found) {
      const std::uint64_t i = at + lane();
      const bool inside = i < each.size && each.indices[i] < end;
      if (inside) {
        const auto offset = static_cast<unsigned>(each.indices[i] - base);
        atomicOr(&touched[offset / 32], 1U << offset % 32);
      }
      found = static_cast<unsigned>(__popc(__ballot_sync(kAllThreadsOfWarp, inside)));
    }
    if (lane() == 0) cursors[part].end = at;
  }
}

template <class Parts>
__device__ void add_tile(const Parts& parts, unsigned count, const Cursor* cursors, std::uint64_t base, float* sums) {
  for (unsigned part = 0; part < count; ++part) {
    const Part each = parts[part];
    for (std::uint64_t i = cursors[part].begin + threadIdx.x; i < cursors[part].end; i += kThreads) {
      float& sum = sums[each.indices[i] - base];
      sum = sum + each.values[i];
    }
    __syncthreads();
  }
}

/// Entries of all blocks before this one.
__device__ std::uint64_t entries_before(const std::uint64_t* counts) {
  std::uint64_t mine = 0;
  for (unsigned block = threadIdx.x; block < blockIdx.x; block += kThreads) mine += counts[block];
  return sums_of_block<kThreads>(mine).all;
}

/// Lane l of a warp writes index l of a word.
__device__ void write_tile(const std::uint32_t* touched, const float* sums, const unsigned* before, std::uint64_t base,
                           std::uint64_t written, std::uint32_t* indices, float* values) {
  for (unsigned word = warp(); word < kTileWords; word += kWarps) {
    const std::uint32_t bits = touched[word];
    if ((bits >> lane() & 1U) == 0) continue;
    const auto rank = static_cast<unsigned>(__popc(bits & lower_lanes()));
    const std::uint64_t to = written + before[word] + rank;
    indices[to] = static_cast<std::uint32_t>(base + word * 32 + lane());
    values[to] = sums[word * 32 + lane()];
  }
}

template <bool kWrite, class Parts>
__global__ void merge_kernel(const __grid_constant__ Parts parts, unsigned count, Scratch scratch,
                             std::uint32_t* indices, float* values, std::uint64_t* total) {
  __shared__ float sums[kWrite ? kTile : 1];
  __shared__ std::uint32_t touched[kTileWords];
  __shared__ unsigned before[kTileWords];
  const IndexRange range = range_of_block(parts, count);
  Cursor* cursors = scratch.cursors + std::uint64_t{blockIdx.x} * count;
  for (unsigned part = threadIdx.x; part < count; part += kThreads) {
    cursors[part].begin = first_at_least(parts[part], range.begin);
  }
  std::uint64_t written = kWrite ? entries_before(scratch.counts) : 0;
  for (;;) {
    __syncthreads();
    const std::uint64_t base = next_index(parts, count, cursors, range.end);
    if (base >= range.end) break;
    const std::uint64_t end = base + kTile < range.end ? base + kTile : range.end;
    touched[threadIdx.x] = 0;
    if constexpr (kWrite) {
      for (unsigned i = threadIdx.x; i < kTile; i += kThreads) sums[i] = -0.0F;  // -0 + x is x, bit for bit
    }
    __syncthreads();
    mark_tile(parts, count, cursors, base, end, touched);
    __syncthreads();
    const auto found = sums_of_block<kThreads>(static_cast<unsigned>(__popc(touched[threadIdx.x])));
    if constexpr (kWrite) {
      before[threadIdx.x] = found.before;
      add_tile(parts, count, cursors, base, sums);
      write_tile(touched, sums, before, base, written, indices, values);
    }
    written += found.all;
    for (unsigned part = threadIdx.x; part < count; part += kThreads) cursors[part].begin = cursors[part].end;
  }
  if (threadIdx.x != 0) return;
  if (!kWrite) scratch.counts[blockIdx.x] = written;
  if (kWrite && blockIdx.x == gridDim.x - 1) *total = written;
}

}  // namespace

void merge_sum(Place& place, std::span<const ConstSparseView> parts, SparseView sum, View<std::uint64_t> count) {
  std::uint64_t entries = 0;
  for (const auto& part : parts) entries += part.size();
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::uint64_t>((entries + kEntriesABlock - 1) / kEntriesABlock, 1, kMostBlocks));
  const auto ranks = static_cast<unsigned>(parts.size());
  Workspace& workspace = place.workspace();
  const Workspace::Scope scope(workspace);
  const Scratch scratch{workspace.take<Cursor>(std::size_t{blocks} * ranks).data(),
                        workspace.take<std::uint64_t>(blocks).data()};
  const auto part_at = [&](std::size_t i) {
    return Part{parts[i].indices.data(), parts[i].values.data(), parts[i].size()};
  };
  with_list<Part>(place, parts.size(), part_at, [&](const auto& list) {
    const Launch launch(place, "merge_sum");
    merge_kernel<false><<<blocks, kThreads, 0, launch.stream()>>>(list, ranks, scratch, sum.indices.data(),
                                                                  sum.values.data(), count.data());
    launch.check();
    merge_kernel<true><<<blocks, kThreads, 0, launch.stream()>>>(list, ranks, scratch, sum.indices.data(),
                                                                 sum.values.data(), count.data());
    launch.check();
  });
}

}  // namespace laconic::cuda
