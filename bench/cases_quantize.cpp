#include <cmath>
#include <cstring>

#include "base/keep.h"
#include "bench/cases.h"
#include "bench/streams.h"
#include "kernels/norm/norm.h"
#include "kernels/quantize/quantize.h"

#if LACONIC_TORCH
#include "torch/train/baselines.h"
#endif

namespace laconic::bench {
namespace {

/// The norm that DQ-SGD takes: ℓ2 of the whole tensor.
float norm_of(const Inputs& inputs) {
  float result = 0.0F;
  Status status;
  norm(inputs.place(), inputs.gradient(), Norm::l2, {&result, 1}, view_of(status));
  return result;
}

Quantizer quantizer_of(int bits) { return {.bits = bits, .rounding = {.seed = 7, .purpose = Purpose::rounding}}; }

template <int kBits>
class Quantize {
 public:
  explicit Quantize(const Inputs& inputs)
      : values_(inputs.gradient()), norm_(norm_of(inputs)), packed_(quantized_bytes(inputs.n(), kBits)) {}

  void prepare() {}
  void run(Place& place) { quantize(place, values_, {&norm_, 1}, quantizer_of(kBits), packed_.view()); }
  void stream(ThreadPool& pool) { stream_read(pool, as_bytes(values_)); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(packed_.view())}; }

#if LACONIC_TORCH
  void torch() {
    torch_packed_.reserve(even() * kBits / 8);
    torch_baselines::quantize(values_.sub(0, even()), norm_, kBits, torch_packed_.view());
  }

  /// Every level must be one of the two beside the exact value.
  std::string torch_wrong() const {
    const auto levels = static_cast<float>(levels_of(kBits));
    for (std::size_t i = 0; i < even(); ++i) {
      const unsigned byte = torch_packed_.view()[i * kBits / 8];
      const unsigned field = kBits == 8 ? byte : i % 2 == 0 ? byte & 15U : byte >> 4U;
      const float level = static_cast<float>(field & levels_of(kBits));
      if (std::abs(level - std::abs(values_[i]) * levels / norm_) > 1.001F) return "a level is off by more than one";
      if ((field > levels_of(kBits)) != (values_[i] < 0.0F)) return "a sign is wrong";
    }
    return "";
  }
#endif

 private:
  std::size_t even() const { return values_.size() / 2 * 2; }

  View<const float> values_;
  float norm_;
  Buffer<std::byte> packed_;
#if LACONIC_TORCH
  Buffer<std::uint8_t> torch_packed_;
#endif
};

template <int kBits>
class DequantizeAdd {
 public:
  explicit DequantizeAdd(const Inputs& inputs)
      : start_(inputs.residual()),
        norm_(norm_of(inputs)),
        packed_(quantized_bytes(inputs.n(), kBits)),
        values_(inputs.n()) {
    quantize(inputs.place(), inputs.gradient(), {&norm_, 1}, quantizer_of(kBits), packed_.view());
#if LACONIC_TORCH
    torch_packed_.reserve(even() * kBits / 8);
    torch_baselines::quantize(inputs.gradient().sub(0, even()), norm_, kBits, torch_packed_.view());
#endif
  }

  void prepare() { std::memcpy(values_.view().data(), start_.data(), start_.size_bytes()); }
  void run(Place& place) { dequantize_add(place, packed_.view(), {&norm_, 1}, kBits, values_.view()); }
  void stream(ThreadPool& pool) { stream_read_and_update(pool, packed_.view(), values_.view()); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(values_.view())}; }

#if LACONIC_TORCH
  void torch() { torch_baselines::dequantize_add(torch_packed_.view(), norm_, kBits, values_.view().sub(0, even())); }
  std::string torch_wrong() const {
    const float unit = norm_ / static_cast<float>(levels_of(kBits));
    for (std::size_t i = 0; i < even(); ++i) {
      const unsigned byte = torch_packed_.view()[i * kBits / 8];
      const unsigned field = kBits == 8 ? byte : i % 2 == 0 ? byte & 15U : byte >> 4U;
      const float size = static_cast<float>(field & levels_of(kBits)) * unit;
      const float expected = start_[i] + (field > levels_of(kBits) ? -size : size);
      if (std::abs(values_.view()[i] - expected) > 1e-5F * (std::abs(expected) + size)) return "a value is wrong";
    }
    return "";
  }
#endif

 private:
  std::size_t even() const { return values_.capacity() / 2 * 2; }

  View<const float> start_;
  float norm_;
  Buffer<std::byte> packed_;
  Buffer<float> values_;
#if LACONIC_TORCH
  Buffer<std::uint8_t> torch_packed_;
#endif
};

constexpr std::uint64_t kScope = 256;  ///< entries that share a norm: block-quant's default

Quantizer scoped_quantizer() {
  return {.bits = 4, .rounding = {}, .kind = Rounding::nearest, .scope = kScope};
}

class ScopeNorms {
 public:
  explicit ScopeNorms(const Inputs& inputs) : values_(inputs.gradient()), norms_(norms_of(inputs.n(), kScope)) {}

  void prepare() {}
  void run(Place& place) {
    Status status;
    scope_norms(place, values_, kScope, Norm::max, norms_.view(), view_of(status));
  }
  void stream(ThreadPool& pool) { stream_read(pool, as_bytes(values_)); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(norms_.view())}; }

 private:
  View<const float> values_;
  Buffer<float> norms_;
};

/// To the nearest of four bits with a norm for each scope, and what is left of the values.
class QuantizeScopes {
 public:
  explicit QuantizeScopes(const Inputs& inputs)
      : values_(inputs.gradient()),
        norms_(norms_of(inputs.n(), kScope)),
        packed_(quantized_bytes(inputs.n(), 4)),
        rest_(inputs.n()) {
    Status status;
    scope_norms(inputs.place(), values_, kScope, Norm::max, norms_.view(), view_of(status));
  }

  void prepare() {}
  void run(Place& place) {
    quantize(place, values_, norms_.view(), scoped_quantizer(), packed_.view(), rest_.view());
  }
  void stream(ThreadPool& pool) { stream_copy(pool, values_, rest_.view()); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(packed_.view()), as_bytes(rest_.view())}; }

 private:
  View<const float> values_;
  Buffer<float> norms_;
  Buffer<std::byte> packed_;
  Buffer<float> rest_;
};

class DequantizeScopes {
 public:
  explicit DequantizeScopes(const Inputs& inputs)
      : start_(inputs.residual()),
        norms_(norms_of(inputs.n(), kScope)),
        packed_(quantized_bytes(inputs.n(), 4)),
        values_(inputs.n()) {
    Status status;
    scope_norms(inputs.place(), inputs.gradient(), kScope, Norm::max, norms_.view(), view_of(status));
    quantize(inputs.place(), inputs.gradient(), norms_.view(), scoped_quantizer(), packed_.view());
  }

  void prepare() { std::memcpy(values_.view().data(), start_.data(), start_.size_bytes()); }
  void run(Place& place) { dequantize_add(place, packed_.view(), norms_.view(), 4, values_.view(), kScope); }
  void stream(ThreadPool& pool) { stream_read_and_update(pool, packed_.view(), values_.view()); }
  std::vector<View<const std::byte>> results() const { return {as_bytes(values_.view())}; }

 private:
  View<const float> start_;
  Buffer<float> norms_;
  Buffer<std::byte> packed_;
  Buffer<float> values_;
};

}  // namespace

std::vector<KernelEntry> quantize_cases() {
  static constexpr const char* kBytes = "read the fields, read and write the values";
  return {
      {"quantize_4", "read the values", make_case<Quantize<4>>},
      {"quantize_8", "read the values", make_case<Quantize<8>>},
      {"dequantize_add_4", kBytes, make_case<DequantizeAdd<4>>},
      {"dequantize_add_8", kBytes, make_case<DequantizeAdd<8>>},
      {"scope_norms", "read the values", make_case<ScopeNorms>},
      {"quantize_scopes_4", "read the values, write the rest", make_case<QuantizeScopes>},
      {"dequantize_scopes_4", kBytes, make_case<DequantizeScopes>},
  };
}

}  // namespace laconic::bench
