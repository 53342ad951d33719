#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/keep.h"
#include "base/philox.h"
#include "bench/cases.h"
#include "bench/streams.h"
#include "kernels/block/block.h"
#include "kernels/checksum/checksum.h"
#include "kernels/convert/convert.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "kernels/sparse/sparse.h"

#if LACONIC_TORCH
#include "torch/train/baselines.h"
#endif

namespace laconic::bench {
namespace {

#if LACONIC_TORCH
/// Torch adds squares in float32, which costs it digits over millions of them.
bool close(float a, float b) { return std::abs(a - b) <= 1e-2F * std::max(std::abs(a), std::abs(b)); }
#endif

template <Norm kKind>
class TakeNorm {
 public:
  explicit TakeNorm(const Inputs& inputs) : values_(inputs.gradient()) {}

  void prepare() {}
  void run(Place& place) {
    Status status;
    norm(place, values_, kKind, {&result_, 1}, view_of(status));
  }
  void stream(ThreadPool& pool) { stream_read(pool, as_bytes(values_)); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(View<const float>(&result_, 1))}; }

#if LACONIC_TORCH
  void torch() {
    torch_result_ = kKind == Norm::l2 ? torch_baselines::norm_l2(values_) : torch_baselines::norm_max(values_);
  }
  std::string torch_wrong() const { return close(torch_result_, result_) ? "" : "another norm"; }
#endif

 private:
  View<const float> values_;
  float result_ = 0.0F;
#if LACONIC_TORCH
  float torch_result_ = 0.0F;
#endif
};

template <ValueFormat kFormat>
class To16 {
 public:
  explicit To16(const Inputs& inputs) : values_(inputs.gradient()), out_(inputs.n()) {}

  void prepare() {}
  void run(Place& place) {
    Status status;
    to_16bit(place, values_, kFormat, out_.view(), view_of(status));
  }
  void stream(ThreadPool& pool) { stream_narrow(pool, values_, out_.view()); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(out_.view())}; }

#if LACONIC_TORCH
  void torch() {
    torch_out_.reserve(out_.capacity());
    if (kFormat == ValueFormat::f16) {
      torch_baselines::to_f16(values_, torch_out_.view());
    } else {
      torch_baselines::to_bf16(values_, torch_out_.view());
    }
  }
  std::string torch_wrong() const {
    return std::equal(torch_out_.view().begin(), torch_out_.view().end(), out_.view().begin()) ? "" : "other halves";
  }
#endif

 private:
  View<const float> values_;
  Buffer<std::uint16_t> out_;
#if LACONIC_TORCH
  Buffer<std::uint16_t> torch_out_;
#endif
};

class FromF16 {
 public:
  explicit FromF16(const Inputs& inputs) : values_(inputs.n()), out_(inputs.n()) {
    Status status;
    to_16bit(inputs.place(), inputs.gradient(), ValueFormat::f16, values_.view(), view_of(status));
  }

  void prepare() {}
  void run(Place& place) { from_16bit(place, values_.view(), ValueFormat::f16, out_.view()); }
  void stream(ThreadPool& pool) { stream_widen(pool, values_.view(), out_.view()); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(out_.view())}; }

#if LACONIC_TORCH
  void torch() {
    torch_out_.reserve(out_.capacity());
    torch_baselines::from_f16(values_.view(), torch_out_.view());
  }
  std::string torch_wrong() const {
    return std::equal(torch_out_.view().begin(), torch_out_.view().end(), out_.view().begin()) ? "" : "other values";
  }
#endif

 private:
  Buffer<std::uint16_t> values_;
  Buffer<float> out_;
#if LACONIC_TORCH
  Buffer<float> torch_out_;
#endif
};

class ScatterAdd {
 public:
  explicit ScatterAdd(const Inputs& inputs)
      : start_(inputs.residual()),
        out_(inputs.n()),
        indices_(keep_count(0.01, inputs.n())),
        values_(indices_.capacity()) {
    const RandomStream stream{.seed = 5, .purpose = Purpose::test};
    const std::uint64_t stride = indices_.capacity() == 0 ? 1 : inputs.n() / indices_.capacity();
    for (std::size_t i = 0; i < indices_.capacity(); ++i) {
      indices_.view()[i] = static_cast<std::uint32_t>(i * stride + draw32(stream, i) % stride);
      values_.view()[i] = inputs.gradient()[i];
    }
  }

  void prepare() { std::memcpy(out_.view().data(), start_.data(), start_.size_bytes()); }
  void run(Place& place) { scatter_add(place, {indices_.view(), values_.view()}, out_.view()); }
  void stream(ThreadPool& pool) { stream_spaced(pool, indices_.view(), values_.view(), out_.view()); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(out_.view())}; }

#if LACONIC_TORCH
  void torch() {
    if (wide_.empty()) wide_.assign(indices_.view().begin(), indices_.view().end());
    torch_baselines::scatter_add(wide_, values_.view(), out_.view());
  }
  std::string torch_wrong() const {
    for (std::size_t i = 0; i < wide_.size(); ++i) {
      const std::size_t at = indices_.view()[i];
      if (out_.view()[at] != start_[at] + values_.view()[i]) return "another sum";
    }
    return "";
  }
#endif

 private:
  View<const float> start_;
  Buffer<float> out_;
  Buffer<std::uint32_t> indices_;
  Buffer<float> values_;
#if LACONIC_TORCH
  std::vector<std::int64_t> wide_;
#endif
};

class Axpy {
 public:
  explicit Axpy(const Inputs& inputs) : x_(inputs.gradient()), start_(inputs.residual()), y_(inputs.n()) {}

  void prepare() { std::memcpy(y_.view().data(), start_.data(), start_.size_bytes()); }
  void run(Place& place) { axpy(place, kAlpha, x_, y_.view()); }
  void stream(ThreadPool& pool) { stream_add(pool, x_, y_.view()); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(y_.view())}; }

#if LACONIC_TORCH
  void torch() { torch_baselines::axpy(kAlpha, x_, y_.view()); }
  std::string torch_wrong() const {
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const float size = std::abs(start_[i]) + std::abs(x_[i]);  // torch may fuse, and then rounds once
      if (std::abs(y_.view()[i] - (start_[i] + kAlpha * x_[i])) > 1e-6F * size) return "another sum";
    }
    return "";
  }
#endif

 private:
  static constexpr float kAlpha = -0.1F;
  View<const float> x_;
  View<const float> start_;
  Buffer<float> y_;
};

class Mean {
 public:
  explicit Mean(const Inputs& inputs)
      : parts_{inputs.gradient(), inputs.residual(), inputs.last_gradient()}, out_(inputs.n()) {}

  void prepare() {}
  void run(Place& place) {
    Status status;
    sum_in_rank_order(place, parts_, static_cast<float>(parts_.size()), out_.view(), view_of(status));
  }
  void stream(ThreadPool& pool) { stream_merge(pool, parts_, out_.view()); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(out_.view())}; }

#if LACONIC_TORCH
  void torch() { torch_baselines::mean(parts_, out_.view()); }
  std::string torch_wrong() const {
    for (std::size_t i = 0; i < out_.capacity(); ++i) {
      const float sum = parts_[0][i] + parts_[1][i] + parts_[2][i];
      if (std::abs(out_.view()[i] - sum / 3) > 1e-6F * (1 + std::abs(sum))) return "another mean";
    }
    return "";
  }
#endif

 private:
  std::array<View<const float>, 3> parts_;
  Buffer<float> out_;
};

class Checksum {
 public:
  explicit Checksum(const Inputs& inputs) : bytes_(as_bytes(inputs.gradient())) {}

  void prepare() {}
  void run(Place& place) { result_ = checksum(place, bytes_); }
  void stream(ThreadPool& pool) { stream_read(pool, bytes_); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(View<const std::uint32_t>(&result_, 1))}; }

 private:
  View<const std::byte> bytes_;
  std::uint32_t result_ = 0;
};

/// A quarter of each of up to fifty tensors, from a place that makes some of the blocks wrap.
class GatherBlocks {
 public:
  explicit GatherBlocks(const Inputs& inputs) : flat_(inputs.gradient()) {
    const std::uint64_t tensors = std::clamp<std::uint64_t>(inputs.n() / 64, 1, 50);
    for (std::uint64_t i = 0; i < tensors && inputs.n() > 0; ++i) {
      const std::uint64_t offset = inputs.n() / tensors * i;
      const std::uint64_t size = inputs.n() / tensors;
      blocks_.push_back({offset, size, i * 7919 * size / 50 % size, block_count(4.0, size)});
    }
    out_.reserve(blocks_size(blocks_));
  }

  void prepare() {}
  void run(Place& place) { gather_blocks(place, flat_, blocks_, 0, out_.view()); }
  void stream(ThreadPool& pool) { stream_copy(pool, flat_.sub(0, out_.capacity()), out_.view()); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(out_.view())}; }

 private:
  View<const float> flat_;
  std::vector<Block> blocks_;
  Buffer<float> out_;
};

}  // namespace

std::vector<KernelEntry> value_cases() {
  return {
      {"norm_l2", "read the values", make_case<TakeNorm<Norm::l2>>},
      {"norm_max", "read the values", make_case<TakeNorm<Norm::max>>},
      {"to_f16", "read the values, write 16 bits each", make_case<To16<ValueFormat::f16>>},
      {"to_bf16", "read the values, write 16 bits each", make_case<To16<ValueFormat::bf16>>},
      {"from_f16", "read 16 bits each, write the values", make_case<FromF16>},
      {"scatter_add", "the same entries to evenly spaced places", make_case<ScatterAdd>},
      {"axpy", "y += x in place", make_case<Axpy>},
      {"mean", "add 3 workers' values, write once", make_case<Mean>},
      {"checksum", "read the bytes", make_case<Checksum>},
      {"gather_blocks", "copy as many values", make_case<GatherBlocks>},
  };
}

const std::vector<KernelEntry>& kernel_table() {
  static const std::vector<KernelEntry> table = [] {
    std::vector<KernelEntry> all;
    for (const auto& group : {topk_cases(), sign_cases(), quantize_cases(), value_cases()}) {
      all.insert(all.end(), group.begin(), group.end());
    }
    return all;
  }();
  return table;
}

}  // namespace laconic::bench
