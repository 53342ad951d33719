#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/keep.h"
#include "bench/cases.h"
#include "bench/streams.h"
#include "kernels/coded/coded.h"
#include "kernels/regtopk/regtopk.h"
#include "kernels/sparse/sparse.h"
#include "kernels/topk/topk.h"

#if LACONIC_TORCH
#include "torch/train/baselines.h"
#endif

namespace laconic::bench {
namespace {

constexpr double kTopkKeep = 0.01;

/// Error feedback and top-k on one gradient and residual, in place; what differs between the cases is the data and what
/// the kernel is told beforehand.
class Topk {
 public:
  Topk(View<const float> gradient, View<const float> residual)
      : gradient_(gradient),
        start_(residual),
        residual_(gradient.size()),
        indices_(keep_count(kTopkKeep, gradient.size())),
        values_(indices_.capacity()) {}
  virtual ~Topk() = default;

  void prepare() { std::memcpy(residual_.view().data(), start_.data(), start_.size_bytes()); }

  virtual void run(Place& place) {
    status_ = Status{};
    status_.threshold = guess_;
    error_feedback_topk(place, gradient_, residual_.view(), residual_.view(), selected(), view_of(status_));
  }

  void stream(ThreadPool& pool) { stream_add(pool, gradient_, residual_.view()); }

  std::vector<View<const std::byte>> results() const {
    return {as_bytes(residual_.view()), as_bytes(indices_.view()), as_bytes(values_.view())};
  }

  void set_guess(float threshold) { guess_ = threshold; }

  /// The smallest magnitude selected, of a cold start.
  float threshold(Place& place) {
    prepare();
    run(place);
    return status_.threshold;
  }

  SparseView selected() const { return {indices_.view(), values_.view()}; }
  View<const float> gradient() const { return gradient_; }
  View<float> residual() const { return residual_.view(); }
  Status& status() { return status_; }

 private:
  View<const float> gradient_;
  View<const float> start_;
  Buffer<float> residual_;
  Buffer<std::uint32_t> indices_;
  Buffer<float> values_;
  Status status_;
  float guess_ = 0.0F;
};

/// The same with torch beside it.
class TopkBesideTorch : public Topk {
 public:
  using Topk::Topk;
#if LACONIC_TORCH
  void torch() {
    torch_indices_.reserve(selected().size());
    torch_values_.reserve(selected().size());
    torch_baselines::topk(gradient(), residual(), torch_indices_.view(), torch_values_.view());
  }

  /// Torch breaks ties as it likes, so magnitudes are compared and not places: the last run of ours is in `selected`.
  std::string torch_wrong() const {
    std::vector<float> ours(selected().values.begin(), selected().values.end());
    std::vector<float> theirs(torch_values_.view().begin(), torch_values_.view().end());
    for (auto* values : {&ours, &theirs}) {
      for (float& value : *values) value = std::abs(value);
      std::sort(values->begin(), values->end());
    }
    return ours == theirs ? "" : "it selects other magnitudes";
  }

 private:
  Buffer<std::int64_t> torch_indices_;
  Buffer<float> torch_values_;
#endif
};

Case cold(const Inputs& inputs) {
  return case_of(std::make_shared<TopkBesideTorch>(inputs.gradient(), inputs.residual()));
}

Case warm(const Inputs& inputs) {
  const float last = Topk(inputs.last_gradient(), inputs.residual()).threshold(inputs.place());
  auto job = std::make_shared<TopkBesideTorch>(inputs.gradient(), inputs.residual());
  job->set_guess(last);
  return case_of(std::move(job));
}

Case wrong_guess(const Inputs& inputs) {
  auto job = std::make_shared<Topk>(inputs.gradient(), inputs.residual());
  job->set_guess(1.25F * job->threshold(inputs.place()));
  return case_of(std::move(job));
}

/// Top-k on a gradient and a residual that are the usual ones, changed entry by entry.
class TopkOnOther {
 public:
  template <class Change>
  TopkOnOther(const Inputs& inputs, const Change& change)
      : gradient_(changed(inputs.gradient(), change)),
        start_(changed(inputs.residual(), change)),
        topk_(gradient_, start_) {}

  void prepare() { topk_.prepare(); }
  void run(Place& place) { topk_.run(place); }
  void stream(ThreadPool& pool) { topk_.stream(pool); }
  auto results() const { return topk_.results(); }

 private:
  template <class Change>
  static std::vector<float> changed(View<const float> values, const Change& change) {
    std::vector<float> result(values.begin(), values.end());
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = change(i, result[i]);
    return result;
  }

  std::vector<float> gradient_;
  std::vector<float> start_;
  Topk topk_;
};

template <class Change>
Case on_other(const Inputs& inputs, const Change& change) {
  return case_of(std::make_shared<TopkOnOther>(inputs, change));
}

/// One stretch of 4,096 in 64 is thirty times as large: a sample of single entries is misled.
Case clustered(const Inputs& inputs) {
  return on_other(inputs,
                  [](std::size_t i, float value) { return i / 4096 * 2654435761U % 64 == 0 ? 30 * value : value; });
}

/// Fifty layers whose scales lie three orders of magnitude apart.
Case layered(const Inputs& inputs) {
  const std::size_t layer_size = inputs.n() / 50 + 1;
  return on_other(inputs, [=](std::size_t i, float value) {
    return value * std::pow(10.0F, -static_cast<float>(i / layer_size * 7 % 4));
  });
}

/// Multiples of one half: hundreds of thousands of equals at the threshold.
Case tied(const Inputs& inputs) {
  return on_other(inputs, [](std::size_t, float value) { return std::round(2 * value) / 2; });
}

/// Top-k in scopes of 4,096 entries, one in 64 of each.
class TopkByScope {
 public:
  explicit TopkByScope(const Inputs& inputs)
      : gradient_(inputs.gradient()),
        start_(inputs.residual()),
        scopes_{kEach, kEach / 64, keep_count(1.0 / 64, last_size(gradient_.size()))},
        residual_(gradient_.size()),
        indices_(scopes_.selected(gradient_.size())),
        values_(indices_.capacity()) {}

  void prepare() { std::memcpy(residual_.view().data(), start_.data(), start_.size_bytes()); }
  void run(Place& place) {
    Status status;
    error_feedback_topk_by_scope(place, gradient_, residual_.view(), residual_.view(), scopes_,
                                 {indices_.view(), values_.view()}, view_of(status));
  }
  void stream(ThreadPool& pool) { stream_add(pool, gradient_, residual_.view()); }
  std::vector<View<const std::byte>> results() const {
    return {as_bytes(residual_.view()), as_bytes(indices_.view()), as_bytes(values_.view())};
  }

 private:
  static constexpr std::uint64_t kEach = 4096;
  static std::uint64_t last_size(std::uint64_t n) { return n % kEach == 0 ? kEach : n % kEach; }

  View<const float> gradient_;
  View<const float> start_;
  FixedScopes scopes_;
  Buffer<float> residual_;
  Buffer<std::uint32_t> indices_;
  Buffer<float> values_;
};

/// A warm top-k, then its values as signs and magnitudes, whose error goes into the rest.
template <ValueFormat kFormat>
class CodedTopk : public Topk {
 public:
  explicit CodedTopk(const Inputs& inputs) : Topk(inputs.gradient(), inputs.residual()), errors_(selected().size()) {
    set_guess(Topk(inputs.last_gradient(), inputs.residual()).threshold(inputs.place()));
  }
  void run(Place& place) override {
    Topk::run(place);
    code_values(place, kFormat, {}, {0, 1}, selected(), errors_.view(), view_of(status()));
    scatter(place, {selected().indices, errors_.view()}, residual());
  }

 private:
  Buffer<float> errors_;
};

/// RegTop-k a step after top-k: the last support is what the step before selected.
class Regtopk {
 public:
  explicit Regtopk(const Inputs& inputs)
      : last_(inputs.last_gradient(), inputs.residual()),
        job_(inputs.gradient(), inputs.residual()),
        guess_(last_.threshold(inputs.place())),
        aggregate_(last_.selected().values.begin(), last_.selected().values.end()) {
    for (float& value : aggregate_) value *= 0.5F;
  }

  void prepare() { job_.prepare(); }
  void run(Place& place) {
    job_.status() = Status{};
    job_.status().threshold = guess_;
    const LastSupport last{last_.selected().indices, last_.selected().values, aggregate_};
    error_feedback_regtopk(place, job_.gradient(), job_.residual(), job_.residual(), last, {.weight = 0.25F},
                           job_.selected(), view_of(job_.status()));
  }
  void stream(ThreadPool& pool) { job_.stream(pool); }
  auto results() const { return job_.results(); }

 private:
  Topk last_;
  Topk job_;
  float guess_;
  std::vector<float> aggregate_;
};

}  // namespace

std::vector<KernelEntry> topk_cases() {
  static constexpr const char* kStream = "e += g in place";
  return {
      {"topk_cold", kStream, cold},
      {"topk_warm", kStream, warm},
      {"topk_wrong_guess", kStream, wrong_guess},
      {"topk_clustered", kStream, clustered},
      {"topk_layered", kStream, layered},
      {"topk_tied", kStream, tied},
      {"topk_chunk", kStream, make_case<TopkByScope>},
      {"topk_sign", kStream, make_case<CodedTopk<ValueFormat::sign>>},
      {"topk_two", kStream, make_case<CodedTopk<ValueFormat::two>>},
      {"regtopk", kStream, make_case<Regtopk>},
  };
}

}  // namespace laconic::bench
