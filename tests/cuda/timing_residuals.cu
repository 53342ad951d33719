// The residuals of cuda_timing choices: one residual instead of two, and ways to settle it, with device events. Before
// each job the L2 cache is filled with other values. Each result is checked before its time counts.

#include <limits>

#include "cuda/timing.h"
#include "support/support.h"

namespace laconic::test {
namespace {

using cuda::for_each_entry;
using cuda::kThreads;
using cuda::launch_over;

constexpr std::size_t kTile = std::size_t{1} << 20;   ///< the values repeat after this many
constexpr std::size_t kFlush = std::size_t{1} << 25;  ///< floats that displace what is in the L2 cache
constexpr std::uint64_t kBlockEntries = kThreads * cuda::kEntries * 4;
constexpr float kNever = std::numeric_limits<float>::infinity();
constexpr std::uint32_t kKeptStride = 100, kUnionStride = 33;  ///< lists of 1 % and of 3 % of the entries

constexpr std::uint32_t index_at(std::uint64_t i, std::uint32_t stride) {
  return static_cast<std::uint32_t>(i * stride + (i * 2'654'435'761U >> 7) % stride);
}
constexpr float value_at(std::uint64_t i) { return static_cast<float>(i % 1000 + 1); }
constexpr bool is_listed(std::uint64_t entry, std::uint32_t stride, std::uint64_t count) {
  return entry / stride < count && index_at(entry / stride, stride) == entry;
}

__global__ void fill_kernel(const float* tile, float* values, std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) { values[i] = tile[i % kTile]; });
}

__global__ void list_kernel(std::uint32_t stride, std::uint32_t* indices, float* values, std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) {
    indices[i] = index_at(i, stride);
    values[i] = value_at(i);
  });
}

__global__ void mark_kernel(const std::uint32_t* indices, std::uint32_t* bitmap, std::uint64_t n) {
  cuda::load_then_store(
      n, [=](std::uint64_t i) { return indices[i]; },
      [=](std::uint64_t, std::uint32_t index) { atomicOr(&bitmap[index / 32], 1U << index % 32); });
}

/// Values at the indices; zeros if `values` is null.
__global__ void scatter_kernel(const std::uint32_t* indices, const float* values, float* to, std::uint64_t n) {
  struct Entry {
    std::uint32_t index;
    float value;
  };
  cuda::load_then_store(
      n,
      [=](std::uint64_t i) {
        return Entry{indices[i], values == nullptr ? 0.0F : values[i]};
      },
      [=](std::uint64_t, const Entry& entry) { to[entry.index] = entry.value; });
}

struct Entries {
  float4 gradient, residual;
  unsigned dropped;  ///< bit j: entry j was sent

  __device__ float4 sum() const {
    return make_float4(gradient.x + residual.x, gradient.y + residual.y, gradient.z + residual.z,
                       gradient.w + residual.w);
  }
};

/// Counts sums above the limit, which are none when time counts, and writes the sums if asked to.
template <bool kWrites>
__global__ void scan_kernel(const float4* gradient, const float4* residual, float4* rest, float limit, unsigned* above,
                            std::uint64_t n) {
  unsigned count = 0;
  cuda::load_then_store(
      n,
      [=](std::uint64_t i) {
        return Entries{gradient[i], residual[i], 0U};
      },
      [=, &count](std::uint64_t i, const Entries& each) {
        const float4 sum = each.sum();
        count += (sum.x > limit) + (sum.y > limit) + (sum.z > limit) + (sum.w > limit);
        if constexpr (kWrites) rest[i] = sum;
      });
  if (count > 0) atomicAdd(above, count);
}

/// residual <- gradient + residual, or 0 where it was sent; gradient <- 0.
template <class Dropped>
__device__ void settle(float4* gradient, float4* residual, std::uint64_t n, Dropped dropped) {
  cuda::load_then_store(
      n,
      [=](std::uint64_t i) {
        return Entries{gradient[i], residual[i], dropped(i)};
      },
      [=](std::uint64_t i, const Entries& each) {
        const float4 sum = each.sum();
        residual[i] = make_float4((each.dropped & 1U) != 0 ? 0.0F : sum.x, (each.dropped & 2U) != 0 ? 0.0F : sum.y,
                                  (each.dropped & 4U) != 0 ? 0.0F : sum.z, (each.dropped & 8U) != 0 ? 0.0F : sum.w);
        gradient[i] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
      });
}

__device__ unsigned four_bits(const std::uint32_t* bitmap, std::uint64_t i) { return bitmap[i / 8] >> i % 8 * 4 & 15U; }

__global__ void settle_kernel(float4* gradient, float4* residual, std::uint64_t n) {
  settle(gradient, residual, n, [](std::uint64_t) { return 0U; });
}

__global__ void settle_by_bitmap_kernel(float4* gradient, float4* residual, const std::uint32_t* bitmap,
                                        std::uint64_t n) {
  settle(gradient, residual, n, [=](std::uint64_t i) { return four_bits(bitmap, i); });
}

/// How many of the sorted indices are below `bound`; a whole warp asks, with 32 probes at once.
__device__ std::uint64_t count_below(const std::uint32_t* indices, std::uint64_t count, std::uint64_t bound) {
  std::uint64_t low = 0;
  while (count > 0) {
    const std::uint64_t step = count / (cuda::kWarp + 1) + 1;
    const std::uint64_t probe = (threadIdx.x % cuda::kWarp + 1) * step - 1;
    const unsigned below = __popc(__ballot_sync(~0U, probe < count && indices[low + probe] < bound));
    low += below * step;
    count = min(step - 1, count - below * step);
  }
  return low;
}

/// Each block finds its part of the list and makes the bitmap of its entries in shared memory.
__global__ void settle_by_search_kernel(float4* gradient, float4* residual, const std::uint32_t* indices,
                                        std::uint64_t listed, std::uint64_t n) {
  __shared__ std::uint32_t bitmap[kBlockEntries / 32];
  __shared__ std::uint64_t range[2];
  static_assert(kBlockEntries / 32 == kThreads);
  const std::uint64_t first = blockIdx.x * kBlockEntries;
  const unsigned warp = threadIdx.x / cuda::kWarp;
  bitmap[threadIdx.x] = 0;
  if (warp < 2) range[warp] = count_below(indices, listed, first + warp * kBlockEntries);
  __syncthreads();
  for (std::uint64_t i = range[0] + threadIdx.x; i < range[1]; i += kThreads) {
    const auto offset = static_cast<unsigned>(indices[i] - first);
    atomicOr(&bitmap[offset / 32], 1U << offset % 32);
  }
  __syncthreads();
  const std::uint32_t* words = bitmap;
  settle(gradient, residual, n, [=](std::uint64_t i) { return four_bits(words, i - first / 4); });
}

/// A gradient, a residual and lists of their indices, of which the first n entries are used.
class Residuals {
 public:
  Residuals(Place& place, std::size_t most) : place_(place), most_(most) {
    check(cudaMemcpy(tile_.data(), tiles_.data(), tile_.size_bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaMemset(flush_.data(), 0, flush_.size_bytes()), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // the place's stream does not wait for the default one
  }

  void resize(std::size_t n) { n_ = n; }
  std::size_t size() const { return n_; }
  std::size_t listed() const { return listed_; }

  void restore() {
    launch_over(place_, "fill", n_, fill_kernel, tile_.data(), gradient_.data(), n_);
    launch_over(place_, "fill", n_, fill_kernel, tile_.data() + kTile, residual_.data(), n_);
  }
  void make_list(std::uint32_t stride) {
    listed_ = n_ / stride;
    launch_over(place_, "list", listed_, list_kernel, stride, indices_.data(), values_.data(), listed_);
  }
  void mark() {
    check(cudaMemsetAsync(bitmap_.data(), 0, n_ / 8, cuda_stream(place_)), "cudaMemsetAsync");
    launch_over(place_, "mark", listed_, mark_kernel, indices_.data(), bitmap_.data(), listed_);
  }
  void flush() { scan(scan_kernel<false>, flush_, flush_.sub(kFlush / 2, kFlush / 2), rest_, kFlush / 2, kNever); }

  void read(float limit = kNever) { scan(scan_kernel<false>, gradient_, residual_, rest_, n_, limit); }
  void stream() { scan(scan_kernel<true>, gradient_, residual_, rest_, n_, kNever); }
  void add() { scan(scan_kernel<true>, gradient_, residual_, residual_, n_, kNever); }
  void clear_gradient() { check(cudaMemsetAsync(gradient_.data(), 0, n_ * 4, cuda_stream(place_)), "cudaMemsetAsync"); }
  void drop() {
    launch_over(place_, "drop", listed_, scatter_kernel, indices_.data(), nullptr, residual_.data(), listed_);
  }
  void scatter() {
    launch_over(place_, "scatter", listed_, scatter_kernel, indices_.data(), values_.data(), gradient_.data(), listed_);
  }
  void settle_all() {
    launch_over(place_, "settle", n_ / 4, settle_kernel, vectors(gradient_), vectors(residual_), n_ / 4);
  }
  void settle_by_bitmap() {
    launch_over(place_, "settle", n_ / 4, settle_by_bitmap_kernel, vectors(gradient_), vectors(residual_),
                bitmap_.data(), n_ / 4);
  }
  void settle_by_search() {
    launch_over(place_, "settle", n_ / 4, settle_by_search_kernel, vectors(gradient_), vectors(residual_),
                indices_.data(), listed_, n_ / 4);
  }
  void settle_in_three() {
    add();
    clear_gradient();
    drop();
  }

  void verify_scans() {
    restore();
    check(cudaMemsetAsync(above_.data(), 0, sizeof(unsigned), cuda_stream(place_)), "cudaMemsetAsync");
    read(1.0F);
    std::uint64_t expected = 0;
    for (std::size_t i = 0; i < kTile; ++i) expected += sum_at(i) > 1.0F ? n_ / kTile + (i < n_ % kTile) : 0;
    require_equal(fetch(above_)[0] == expected, "scan that writes nothing");
    stream();
    require_values("scan", rest_, [&](std::uint64_t i) { return sum_at(i); });
  }
  /// What `settling` makes of the residual, with zeros at the list's entries or without.
  template <class Settling>
  void verify_settled(const char* name, std::uint32_t stride, Settling settling) {
    restore();
    settling();
    const std::uint64_t listed = stride == 0 ? 0 : listed_;
    require_values(name, gradient_, [](std::uint64_t) { return 0.0F; });
    require_values(name, residual_,
                   [&](std::uint64_t i) { return listed > 0 && is_listed(i, stride, listed) ? 0.0F : sum_at(i); });
  }
  void verify_scatter(std::uint32_t stride) {
    clear_gradient();
    scatter();
    require_values("scatter", gradient_,
                   [&](std::uint64_t i) { return is_listed(i, stride, listed_) ? value_at(i / stride) : 0.0F; });
  }

 private:
  static float4* vectors(View<float> values) { return reinterpret_cast<float4*>(values.data()); }
  template <class Kernel>
  void scan(Kernel kernel, View<float> gradient, View<float> residual, View<float> rest, std::size_t n, float limit) {
    launch_over(place_, "scan", n / 4, kernel, vectors(gradient), vectors(residual), vectors(rest), limit,
                above_.data(), n / 4);
  }
  float sum_at(std::uint64_t i) const { return tiles_[i % kTile] + tiles_[kTile + i % kTile]; }

  /// Ends the program unless the first and the last tile are what is expected.
  template <class Expected>
  void require_values(const char* name, View<float> values, Expected expected) {
    for (const std::size_t first : {std::size_t{0}, n_ - kTile}) {
      std::vector<float> here(kTile);
      for (std::size_t i = 0; i < kTile; ++i) here[i] = expected(first + i);
      require_equal(fetch(values.sub(first, kTile)) == here, name);
    }
  }

  Place& place_;
  std::size_t most_, n_ = 0, listed_ = 0;
  std::vector<float> tiles_ = normal_values(2 * kTile, 1);
  View<float> tile_ = device_view<float>(2 * kTile);
  View<float> gradient_ = device_view<float>(most_), residual_ = device_view<float>(most_);
  View<float> rest_ = device_view<float>(most_), flush_ = device_view<float>(kFlush);
  View<std::uint32_t> indices_ = device_view<std::uint32_t>(most_ / kUnionStride);
  View<float> values_ = device_view<float>(most_ / kUnionStride);
  View<std::uint32_t> bitmap_ = device_view<std::uint32_t>(most_ / 32);
  View<unsigned> above_ = device_view<unsigned>(1);
};

/// Times the jobs and prints them.
void time_and_print(Place& place, Residuals& residuals, std::vector<Job>& jobs) {
  for (Job& job : jobs) job.before = [&] { residuals.flush(); };
  time_all(place, jobs);
  for (const Job& job : jobs) {
    const float time = median(job.milliseconds);
    const float best = *std::min_element(job.milliseconds.begin(), job.milliseconds.end());
    std::printf("%-44s %10.4f %10.4f %10.0f\n", job.name.c_str(), time, best, job.bytes / time * 1e-6);
  }
}

void time_scans(Place& place, Residuals& residuals) {
  residuals.verify_scans();
  residuals.verify_settled("settle", 0, [&] { residuals.settle_all(); });
  const double size = static_cast<double>(residuals.size());
  std::vector<Job> jobs{{"(a) scan, nothing written", 8 * size, [&] { residuals.read(); }, {}},
                        {"(b) scan, rest written", 12 * size, [&] { residuals.stream(); }, {}},
                        {"(c) settle: e = g + e, g = 0", 16 * size, [&] { residuals.settle_all(); }, {}},
                        {"(d) clear the gradient", 4 * size, [&] { residuals.clear_gradient(); }, {}}};
  time_and_print(place, residuals, jobs);
  const auto sum_of = [&](std::size_t first, std::size_t second) {
    return median(jobs[first].milliseconds) + median(jobs[second].milliseconds);
  };
  const float one = sum_of(0, 2), two = sum_of(1, 3);
  std::printf("one residual, (a) + (c): %.4f ms; two, (b) + (d): %.4f ms; ratio %.2f\n", one, two, one / two);
}

void time_settling(Place& place, Residuals& residuals) {
  residuals.make_list(kKeptStride);
  residuals.mark();
  residuals.verify_settled("settle by bitmap", kKeptStride, [&] { residuals.settle_by_bitmap(); });
  residuals.verify_settled("settle by search", kKeptStride, [&] { residuals.settle_by_search(); });
  residuals.verify_settled("settle in three", kKeptStride, [&] { residuals.settle_in_three(); });
  const double size = static_cast<double>(residuals.size()), kept = static_cast<double>(residuals.listed());
  std::vector<Job> jobs{
      {"settle and drop 1 %, one kernel, bitmap", 16.125 * size, [&] { residuals.settle_by_bitmap(); }, {}},
      {"settle and drop 1 %, one kernel, search", 16 * size, [&] { residuals.settle_by_search(); }, {}},
      {"settle and drop 1 %, three kernels", 16 * size, [&] { residuals.settle_in_three(); }, {}},
      {"  of the three: add", 12 * size, [&] { residuals.add(); }, {}},
      {"  of the three: clear the gradient", 4 * size, [&] { residuals.clear_gradient(); }, {}},
      {"  of the three: zeros at 1 %", 8 * kept, [&] { residuals.drop(); }, {}},
      {"make the bitmap of 1 %", size / 8 + 4 * kept, [&] { residuals.mark(); }, {}}};
  time_and_print(place, residuals, jobs);
}

void time_scatter(Place& place, Residuals& residuals) {
  residuals.make_list(kUnionStride);
  residuals.verify_scatter(kUnionStride);
  const double size = static_cast<double>(residuals.size()), listed = static_cast<double>(residuals.listed());
  std::vector<Job> jobs{{"scatter sorted 3 %", 12 * listed, [&] { residuals.scatter(); }, {}},
                        {"clear the gradient, scatter sorted 3 %",
                         4 * size + 12 * listed,
                         [&] {
                           residuals.clear_gradient();
                           residuals.scatter();
                         },
                         {}}};
  time_and_print(place, residuals, jobs);
}

}  // namespace

void time_residuals(Place& place, const std::vector<std::size_t>& sizes) {
  Residuals residuals(place, *std::max_element(sizes.begin(), sizes.end()));
  for (const std::size_t n : sizes) {
    std::printf("\nresiduals of %zu floats, medians of %d\n", n, kRepeats);
    std::printf("%-44s %10s %10s %10s\n", "work", "ms", "best ms", "GB/s");
    residuals.resize(n);
    time_scans(place, residuals);
    time_settling(place, residuals);
    time_scatter(place, residuals);
  }
}

}  // namespace laconic::test
