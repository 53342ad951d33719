// The selections of cuda_timing: error feedback with exact top-k and RegTop-k, from right, wrong and no guesses, on
// ordinary and on awkward data, and a split of a list. Each result is checked against its definition on the device, by
// kernels that share nothing with the selection, and printed as a ratio to a stream that reads 8 bytes and writes 4 per
// entry, timed in the same turns.

#include "cuda/timing.h"
#include "kernels/coded/coded.h"
#include "kernels/convert/convert.h"
#include "kernels/regtopk/regtopk.h"
#include "kernels/regtopk/regularizer.h"
#include "kernels/residual.h"
#include "kernels/topk/selection.h"

namespace laconic::test {
namespace {

using cuda::for_each_entry;
using cuda::launch_over;
using topk::key_of;

/// The stream of torch.add(g, e, out=a), in vectors.
__global__ void stream_kernel(const float4* x, const float4* y, float4* sums, std::uint64_t n) {
  struct Pair {
    float4 x, y;
  };
  cuda::load_then_store(
      n, [=](std::uint64_t i) { return Pair{x[i], y[i]}; },
      [=](std::uint64_t i, const Pair& pair) {
        sums[i] = make_float4(pair.x.x + pair.y.x, pair.x.y + pair.y.y, pair.x.z + pair.y.z, pair.x.w + pair.y.w);
      });
}

enum class Values : std::uint8_t { normal, clustered, equal, zero, denormal, one_huge };

/// A normal value by Box and Muller's formula, from a hash of its number.
__device__ float normal_at(std::uint64_t i, std::uint64_t seed) {
  std::uint64_t bits = (i + seed * 0x9E37'79B9'7F4A'7C15ULL + 1) * 0xBF58'476D'1CE4'E5B9ULL;
  bits = (bits ^ bits >> 30) * 0x94D0'49BB'1331'11EBULL;
  bits ^= bits >> 31;
  const float radius = static_cast<float>((bits >> 40) + 1) * 0x1p-24F;
  const float angle = static_cast<float>(bits & 0xFF'FFFFU) * 0x1p-24F;
  return sqrtf(-2.0F * logf(radius)) * cosf(6.2831853F * angle);
}

__global__ void fill_kernel(Values kind, std::uint64_t seed, float scale, float* values, std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) {
    float value = scale * normal_at(i, seed);
    if (kind == Values::clustered) value *= i / 30'000 % 37 == 5 ? 20.0F : 1.0F;
    if (kind == Values::equal) value = 0.5F;
    if (kind == Values::zero) value = 0.0F;
    if (kind == Values::denormal) value *= 1e-40F;
    if (kind == Values::one_huge) value *= i == n / 2 ? 1e30F : 1e-6F;
    values[i] = value;
  });
}

__global__ void keys_kernel(const float* gradient, const float* residual, std::uint32_t* keys, std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) { keys[i] = key_of(with_residual(gradient[i], residual[i])); });
}

struct Support {
  const std::uint32_t* indices;
  const float* corrected;
  const float* aggregate;
};

__global__ void rescore_kernel(const float* gradient, const float* residual, Support support, RegtopkScore score,
                               std::uint32_t* keys, std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) {
    const std::uint32_t index = support.indices[i];
    const float value = with_residual(gradient[index], residual[index]);
    keys[index] = key_of(regularized_score(score, value, support.corrected[i], support.aggregate[i]));
  });
}

/// A support of every `stride`-th entry, more or less.
__global__ void support_kernel(std::uint32_t stride, std::uint32_t* indices, float* corrected, float* aggregate,
                               std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) {
    const float jitter = fabsf(normal_at(i, 5));
    indices[i] = static_cast<std::uint32_t>(i * stride) + static_cast<std::uint32_t>(jitter * 7.0F) % stride;
    corrected[i] = normal_at(i, 6);
    aggregate[i] = normal_at(i, 7);
  });
}

/// What the definition says about a selection with threshold T.
struct Findings {
  unsigned long long above;           ///< entries with keys above T
  unsigned long long selected_above;  ///< of the selected
  unsigned long long last_equal;      ///< 1 + the last selected index with key T
  unsigned long long equal_before;    ///< entries with key T up to there
  unsigned long long changed;         ///< entries of `rest` that are not a
  unsigned long long selected_nonzero;
  unsigned long long faults;
};

__global__ void check_selected_kernel(const std::uint32_t* keys, const float* gradient, const float* residual,
                                      const float* rest, const std::uint32_t* indices, const float* values,
                                      std::uint32_t threshold, Findings* findings, std::uint64_t k, std::uint64_t n) {
  for_each_entry(k, [=](std::uint64_t i) {
    const std::uint32_t index = indices[i];
    if (index >= n || (i > 0 && indices[i - 1] >= index) || keys[index] < threshold) {
      atomicAdd(&findings->faults, 1ULL);
      return;
    }
    const std::uint32_t value = __float_as_uint(with_residual(gradient[index], residual[index]));
    if (__float_as_uint(values[i]) != value || __float_as_uint(rest[index]) != 0) atomicAdd(&findings->faults, 1ULL);
    if (value != 0) atomicAdd(&findings->selected_nonzero, 1ULL);
    if (keys[index] > threshold) atomicAdd(&findings->selected_above, 1ULL);
    if (keys[index] == threshold) atomicMax(&findings->last_equal, index + 1ULL);
  });
}

__global__ void check_all_kernel(const std::uint32_t* keys, const float* gradient, const float* residual,
                                 const float* rest, std::uint32_t threshold, Findings* findings, std::uint64_t n) {
  for_each_entry(n, [=](std::uint64_t i) {
    if (keys[i] > threshold) atomicAdd(&findings->above, 1ULL);
    if (keys[i] == threshold && i < findings->last_equal) atomicAdd(&findings->equal_before, 1ULL);
    const std::uint32_t value = __float_as_uint(with_residual(gradient[i], residual[i]));
    if (__float_as_uint(rest[i]) != value) atomicAdd(&findings->changed, 1ULL);
  });
}

struct Case {
  std::string name;
  std::size_t k;
  float guess;  ///< of the threshold, as a multiple of the right one; 0: none
  bool regularized = false;
  bool in_16bit = false;  ///< the gradient is bfloat16
};

class Selections {
 public:
  Selections(Place& place, std::size_t n) : place_(place), n_(n) {}

  void fill(Values kind) {
    launch_over(place_, "fill", n_, fill_kernel, kind, 1, 1.0F, gradient_.data(), n_);
    // Values that bfloat16 has, so that both types have the same selection.
    convert(place_, gradient_, bfloats_);
    convert(place_, bfloats_, gradient_);
    launch_over(place_, "fill", n_, fill_kernel, kind, 2, 0.5F, residual_.data(), n_);
    const std::uint32_t stride = static_cast<std::uint32_t>(n_ / support_indices_.size());
    launch_over(place_, "support", support_indices_.size(), support_kernel, stride, support_indices_.data(),
                support_corrected_.data(), support_aggregate_.data(), support_indices_.size());
  }

  void stream() {
    launch_over(place_, "stream", n_ / 4, stream_kernel, reinterpret_cast<const float4*>(gradient_.data()),
                reinterpret_cast<const float4*>(residual_.data()), reinterpret_cast<float4*>(rest_.data()), n_ / 4);
  }

  void select(const Case& each) {
    const SparseView selected{indices_.sub(0, each.k), values_.sub(0, each.k)};
    const ConstGradientView gradient = gradient_of(each.in_16bit);
    if (each.regularized) {
      const LastSupport last{support_indices_, support_corrected_, support_aggregate_};
      return error_feedback_regtopk(place_, gradient, residual_, rest_, last, score_, selected, status_);
    }
    error_feedback_topk(place_, gradient, residual_, rest_, selected, status_);
  }

  void set_threshold(float threshold) {
    const cuda::Launch launch(place_, "set_threshold");
    check(cudaMemsetAsync(status_.data(), 0, sizeof(Status), launch.stream()), "cudaMemsetAsync");
    check(cudaMemcpyAsync(&status_[0].threshold, &threshold, sizeof(float), cudaMemcpyHostToDevice, launch.stream()),
          "cudaMemcpyAsync");
  }

  /// Ends the program unless the selection from this guess is what the definition says. The threshold.
  float verify(const Case& each, float guess) {
    set_threshold(guess);
    select(each);
    const Status status = fetch(status_)[0];
    make_keys(each);
    const auto bits = key_of(status.threshold);
    check(cudaMemsetAsync(findings_.data(), 0, sizeof(Findings), cuda_stream(place_)), "cudaMemsetAsync");
    launch_over(place_, "check", each.k, check_selected_kernel, keys_.data(), gradient_.data(), residual_.data(),
                rest_.data(), indices_.data(), values_.data(), bits, findings_.data(), each.k, n_);
    launch_over(place_, "check", n_, check_all_kernel, keys_.data(), gradient_.data(), residual_.data(), rest_.data(),
                bits, findings_.data(), n_);
    const Findings found = fetch(findings_)[0];
    const bool right = status.count == each.k && status.nonfinite == 0 && found.faults == 0 && found.above <= each.k &&
                       found.selected_above == found.above && found.equal_before == each.k - found.above &&
                       found.changed == found.selected_nonzero;
    require_equal(right, each.name.c_str());
    return status.threshold;
  }

  /// A 64th of the entries of each scope.
  void select_by_scope(std::uint64_t each, bool in_16bit) {
    const FixedScopes scopes = scopes_of(each);
    error_feedback_topk_by_scope(place_, gradient_of(in_16bit), residual_, rest_, scopes, list(scopes.selected(n_)),
                                 status_);
  }
  /// Ends the program unless the first and the last scopes are what the processor selects from them.
  void verify_scopes(std::uint64_t each) {
    const std::size_t count = std::min<std::size_t>(n_ / each, 4'096'000 / each);
    for (const bool in_16bit : {false, true}) {
      select_by_scope(each, in_16bit);
      for (const std::size_t first : {std::size_t{0}, n_ / each - count}) verify_scopes(each, first, count);
    }
  }
  void verify_scopes(std::uint64_t each, std::size_t first, std::size_t count) {
    const std::uint64_t kept = scopes_of(each).keep;
    const std::size_t begin = first * each, part = count * each, out = first * kept, selected = count * kept;
    const auto gradient = fetch(gradient_.sub(begin, part));
    const auto residual = fetch(residual_.sub(begin, part));
    std::vector<float> rest(part), values(selected);
    std::vector<std::uint32_t> indices(selected);
    Status status;
    Place host;
    error_feedback_topk_by_scope(host, gradient, residual, rest, {each, kept, kept}, {indices, values},
                                 view_of(status));
    for (std::uint32_t& index : indices) index += static_cast<std::uint32_t>(begin);
    require_equal(fetch(indices_.sub(out, selected)) == indices && fetch(values_.sub(out, selected)) == values &&
                      fetch(rest_.sub(begin, part)) == rest,
                  "error_feedback_topk_by_scope");
  }
  /// 1 % of each tensor of a network: two of three are short, as biases and norms are. Starts warm.
  void select_in_tensors() {
    error_feedback_topk_by_scope(place_, gradient_, residual_, rest_, tensors_, {thresholds_, thresholds_},
                                 list(tensors_.back().first + tensors_.back().count), status_);
  }
  /// Ends the program unless the first tensors are what the processor selects from them.
  void verify_tensors() {
    constexpr std::size_t kCompared = 6;
    const std::span<const Scope> tensors = std::span(tensors_).first(kCompared);
    const std::size_t n = tensors.back().offset + tensors.back().size;
    const std::size_t selected = tensors.back().first + tensors.back().count;
    std::vector<float> rest(n), values(selected), thresholds(kCompared);
    std::vector<std::uint32_t> indices(selected);
    Status status;
    Place host;
    error_feedback_topk_by_scope(host, fetch(gradient_.sub(0, n)), fetch(residual_.sub(0, n)), rest, tensors,
                                 {thresholds, thresholds}, {indices, values}, view_of(status));
    for (int step = 0; step < 2; ++step) {  // cold, then warm
      select_in_tensors();
      require_equal(fetch(indices_.sub(0, selected)) == indices && fetch(values_.sub(0, selected)) == values &&
                        fetch(rest_.sub(0, n)) == rest && fetch(thresholds_.sub(0, kCompared)) == thresholds,
                    "error_feedback_topk_by_scope of tensors");
    }
  }
  void code(ValueFormat format, std::size_t k, View<float> errors) {
    code_values(place_, format, {}, {0, 1}, list(k), errors, status_);
  }

  std::size_t size() const { return n_; }
  SparseView list(std::size_t count) const { return {indices_.sub(0, count), values_.sub(0, count)}; }

 private:
  FixedScopes scopes_of(std::uint64_t each) const {
    const std::uint64_t last = n_ % each == 0 ? each : n_ % each;
    return {each, each / 64, std::max<std::uint64_t>(1, last / 64)};
  }

  static std::vector<Scope> network(std::size_t n) {
    constexpr std::size_t kLong = 54, kShort[]{512, 2048};
    const std::size_t each = n / kLong - kShort[0] - kShort[1];
    std::vector<Scope> tensors;
    std::uint64_t offset = 0, first = 0;
    for (std::size_t i = 0; i < kLong; ++i) {
      for (const std::size_t size : {each, kShort[0], kShort[1]}) {
        tensors.push_back({static_cast<std::uint32_t>(tensors.size()), offset, size, first, size / 100});
        offset += size;
        first += size / 100;
      }
    }
    return tensors;
  }

  ConstGradientView gradient_of(bool in_16bit) const {
    return in_16bit ? ConstGradientView(bfloats_) : ConstGradientView(gradient_);
  }

  void make_keys(const Case& each) {
    launch_over(place_, "keys", n_, keys_kernel, gradient_.data(), residual_.data(), keys_.data(), n_);
    if (!each.regularized) return;
    launch_over(place_, "rescore", support_indices_.size(), rescore_kernel, gradient_.data(), residual_.data(),
                Support{support_indices_.data(), support_corrected_.data(), support_aggregate_.data()}, score_,
                keys_.data(), support_indices_.size());
  }

  Place& place_;
  std::size_t n_;
  RegtopkScore score_{.mu = 4.0F, .weight = 0.25F, .denominator = Denominator::previous};
  View<float> gradient_ = device_view<float>(n_);
  GradientView bfloats_{device_view<std::byte>(2 * n_).data(), NumberType::bfloat16, n_, Device::cuda};
  View<float> residual_ = device_view<float>(n_);
  View<float> rest_ = device_view<float>(n_);
  View<std::uint32_t> keys_ = device_view<std::uint32_t>(n_);
  View<std::uint32_t> indices_ = device_view<std::uint32_t>(n_);
  View<float> values_ = device_view<float>(n_);
  View<std::uint32_t> support_indices_ = device_view<std::uint32_t>(n_ / 100);
  View<float> support_corrected_ = device_view<float>(n_ / 100);
  View<float> support_aggregate_ = device_view<float>(n_ / 100);
  std::vector<Scope> tensors_ = network(n_);
  View<float> thresholds_ = device_view<float>(tensors_.size());
  View<Status> status_ = device_view<Status>(1);
  View<Findings> findings_ = device_view<Findings>(1);
};

void print_jobs(const char* kind, const std::vector<Job>& jobs) {
  const float stream = median(jobs[0].milliseconds);
  for (const Job& job : jobs) {
    const float time = median(job.milliseconds);
    const float best = *std::min_element(job.milliseconds.begin(), job.milliseconds.end());
    std::printf("%-10s %-28s %10.4f %10.4f %10.2f\n", kind, job.name.c_str(), time, best, time / stream);
  }
}

void time_cases(Place& place, Selections& selections, const char* kind, const std::vector<Case>& cases) {
  std::vector<Job> jobs{{"stream of 12 bytes", 0.0, [&] { selections.stream(); }, {}}};
  for (const Case& each : cases) {
    const float threshold = selections.verify(each, 0.0F);
    const float guess = each.guess * threshold;
    selections.verify(each, guess);
    jobs.push_back({each.name, 0.0, [&] { selections.select(each); }, {}, [&, guess] {
                      selections.set_threshold(guess);
                    }});
  }
  time_all(place, jobs);
  print_jobs(kind, jobs);
}

/// A list of a fiftieth of the entries, of which half are kept.
void time_split(Place& place, Selections& selections) {
  const std::size_t n = selections.size() / 50;
  const SparseView list = selections.list(n);
  const Case each{"list", n, 0.0F};
  selections.verify(each, 0.0F);
  const SparseView kept{device_view<std::uint32_t>(n / 2), device_view<float>(n / 2)};
  const SparseView left{device_view<std::uint32_t>(n - n / 2), device_view<float>(n - n / 2)};
  split_largest(place, list, kept, left);
  Place host;
  const auto indices = fetch(list.indices);
  const auto values = fetch(list.values);
  std::vector<std::uint32_t> kept_indices(kept.size()), left_indices(left.size());
  std::vector<float> kept_values(kept.size()), left_values(left.size());
  split_largest(host, {indices, values}, {kept_indices, kept_values}, {left_indices, left_values});
  require_equal(fetch(kept.indices) == kept_indices && fetch(left.indices) == left_indices &&
                    fetch(kept.values) == kept_values && fetch(left.values) == left_values,
                "split_largest");
  std::vector<Job> jobs{{"stream of 12 bytes", 0.0, [&] { selections.stream(); }, {}},
                        {"split_largest of n/50", 0.0, [&] { split_largest(place, list, kept, left); }, {}}};
  time_all(place, jobs);
  print_jobs("normal", jobs);
}

/// Selections within scopes and within tensors, and what signs cost after a selection of 1 %. The selection restores
/// what was coded.
void time_scopes_and_codes(Place& place, Selections& selections) {
  constexpr std::uint64_t kShort = 4096, kLong = 32'768;
  selections.verify_scopes(kShort);
  selections.verify_scopes(kLong);
  selections.verify_tensors();
  const Case percent{"top-k 1 %, warm", selections.size() / 100, 1.0F};
  const float threshold = selections.verify(percent, 0.0F);
  const View<float> errors = device_view<float>(percent.k);
  const std::vector<std::uint32_t> indices = fetch(selections.list(percent.k).indices);
  std::vector<float> values = fetch(selections.list(percent.k).values), rest(values.size());
  selections.code(ValueFormat::two, percent.k, errors);
  Place host;
  Status status;
  std::vector<std::uint32_t> same = indices;
  code_values(host, ValueFormat::two, {}, {0, 1}, {same, values}, rest, view_of(status));
  require_equal(fetch(selections.list(percent.k).values) == values && fetch(errors) == rest, "code_values");
  const auto guess = [&] { selections.set_threshold(threshold); };
  const auto with = [&](ValueFormat format) {
    return [&, format] {
      selections.select(percent);
      selections.code(format, percent.k, errors);
    };
  };
  std::vector<Job> jobs{{"stream of 12 bytes", 0.0, [&] { selections.stream(); }, {}},
                        {"top-k 64 of each 4096", 0.0, [&] { selections.select_by_scope(kShort, false); }, {}},
                        {"the same of bfloat16", 0.0, [&] { selections.select_by_scope(kShort, true); }, {}},
                        {"top-k 512 of each 32768", 0.0, [&] { selections.select_by_scope(kLong, false); }, {}},
                        {"top-k 1 % of 162 tensors", 0.0, [&] { selections.select_in_tensors(); }, {}},
                        {percent.name, 0.0, [&] { selections.select(percent); }, {}, guess},
                        {"the same, then sign", 0.0, with(ValueFormat::sign), {}, guess},
                        {"the same, then two", 0.0, with(ValueFormat::two), {}, guess}};
  time_all(place, jobs);
  print_jobs("normal", jobs);
}

}  // namespace

void time_selections(Place& place, std::size_t n) {
  Selections selections(place, n);
  const std::size_t percent = n / 100;
  const std::size_t thousandth = n / 1000;
  std::printf("\nselections from %zu floats, medians of %d\n", n, kRepeats);
  std::printf("%-10s %-28s %10s %10s %10s\n", "values", "selection", "ms", "best ms", "x stream");
  selections.fill(Values::normal);
  time_cases(place, selections, "normal",
             {{"top-k 1 %, warm", percent, 1.0F},
              {"top-k 1 %, guess 0.5 % high", percent, 1.005F},
              {"top-k 1 %, guess 1.25 x", percent, 1.25F},
              {"top-k 1 %, guess 0.5 x", percent, 0.5F},
              {"top-k 1 %, cold", percent, 0.0F},
              {"top-k 0.1 %, warm", thousandth, 1.0F},
              {"top-k 0.1 %, cold", thousandth, 0.0F},
              {"top-k 0.01 %, warm", n / 10'000, 1.0F},
              {"top-k k = 1, warm", 1, 1.0F},
              {"top-k k = 1, cold", 1, 0.0F},
              {"top-k k = n", n, 0.0F},
              {"RegTop-k 1 %, warm", percent, 1.0F, true},
              {"RegTop-k 1 %, cold", percent, 0.0F, true},
              {"RegTop-k 0.1 %, warm", thousandth, 1.0F, true},
              {"bfloat16, top-k 1 %, warm", percent, 1.0F, false, true},
              {"bfloat16, RegTop-k 1 %, warm", percent, 1.0F, true, true}});
  time_split(place, selections);
  time_scopes_and_codes(place, selections);
  const std::vector<Case> awkward{{"top-k 1 %, warm", percent, 1.0F}, {"top-k 1 %, cold", percent, 0.0F}};
  const std::pair<const char*, Values> kinds[] = {{"clustered", Values::clustered},
                                                  {"equal", Values::equal},
                                                  {"zero", Values::zero},
                                                  {"denormal", Values::denormal},
                                                  {"one huge", Values::one_huge}};
  for (const auto& [name, kind] : kinds) {
    selections.fill(kind);
    time_cases(place, selections, name, awkward);
  }
}

}  // namespace laconic::test
