// The bare side of `laconic bench methods`: what a step asks of kernels and exchanges, and nothing else. As in a
// method, new memory is written beside the old, since a step may turn out not to count.

#include "bench/method_jobs.h"

#include <cmath>
#include <utility>

#include "base/buffer.h"
#include "base/keep.h"
#include "base/layout.h"
#include "base/thread_pool.h"
#include "exchange/dense_sum.h"
#include "exchange/packed_vote.h"
#include "exchange/quantized_sum.h"
#include "exchange/sparse_sum.h"
#include "kernels/coded/coded.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "kernels/regtopk/regtopk.h"
#include "kernels/sparse/sparse.h"
#include "methods/optimizer.h"
#include "methods/random_blocks.h"
#include "methods/rounds.h"

namespace laconic::bench {
namespace {

constexpr double kKeep = 0.01;
constexpr double kRatio = 64.0;
constexpr int kBits = 4;
constexpr double kMomentum = 0.9;
constexpr double kLambda = 0.5;
constexpr double kPull = 0.5;

Layout layout_of(const std::vector<Tensor>& tensors) {
  std::vector<std::uint64_t> sizes;
  for (const Tensor& tensor : tensors) sizes.push_back(tensor.size);
  return Layout{std::span<const std::uint64_t>(sizes)};
}

Buffer<float> zeros(Place& place, std::uint64_t n) {
  Buffer<float> buffer(n);
  fill(place, 0.0F, buffer.view());
  return buffer;
}

/// Runs an exchange to its end; the inputs are finite, so that nothing is asked afterwards.
template <class Sum, class... Arguments>
void run(Sum& sum, Arguments&&... arguments) {
  Status status;
  sum.start(std::forward<Arguments>(arguments)..., view_of(status));
  sum.finish();
}

template <ValueFormat Format>
class DenseStep : public StepJob {
 public:
  DenseStep(const JobSetting& setting, const MethodEntry&, Communicator& communicator, Place& place)
      : sum_(communicator, place, setting.n, {.format = Format}) {}
  void step(StepKey, View<float>, View<float> gradient) override { run(sum_, gradient); }

 private:
  DenseSum sum_;
};

class AdamStep : public StepJob {
 public:
  AdamStep(const JobSetting& setting, const MethodEntry&, Communicator& communicator, Place& place)
      : place_(place), sum_(communicator, place, setting.n), optimizer_({.name = "adam"}) {
    optimizer_.prepare(place_, setting.n);
  }
  void step(StepKey, View<float> model, View<float> gradient) override {
    run(sum_, gradient);
    optimizer_.step(place_, kMethodLearningRate, gradient, model);
  }

 private:
  Place& place_;
  DenseSum sum_;
  Optimizer optimizer_;
};

/// Scored: RegTop-k, else top-k.
template <bool Scored>
class SparseStep : public StepJob {
 public:
  SparseStep(const JobSetting& setting, const MethodEntry&, Communicator& communicator, Place& place)
      : place_(place),
        n_(setting.n),
        k_(keep_count(kKeep, setting.n)),
        residual_(zeros(place, n_)),
        rest_(zeros(place, n_)),
        sum_(communicator, place, n_, k_) {
    score_.weight = 1.0F / static_cast<float>(communicator.size());
    for (Buffer<std::uint32_t>* buffer : {&indices_, &last_indices_}) buffer->reserve(k_);
    for (Buffer<float>* buffer : {&values_, &last_values_, &last_mean_}) buffer->reserve(k_);
  }

  void step(StepKey, View<float>, View<float> gradient) override {
    const SparseView selected{indices_.view(k_), values_.view(k_)};
    Status status;
    status.threshold = threshold_;
    if constexpr (Scored) {
      const std::uint64_t known = threshold_ > 0.0F ? k_ : 0;
      const LastSupport last{last_indices_.view(known), last_values_.view(known), last_mean_.view(known)};
      error_feedback_regtopk(place_, gradient, residual_.view(), rest_.view(), last, score_, selected, view_of(status));
    } else {
      error_feedback_topk(place_, gradient, residual_.view(), rest_.view(), selected, view_of(status));
    }
    threshold_ = status.threshold;
    sum_.start(selected, gradient, view_of(status));
    sum_.finish();
    if constexpr (Scored) {
      gather(place_, gradient, selected.indices, last_mean_.view(k_));
      std::swap(indices_, last_indices_);
      std::swap(values_, last_values_);
    }
    std::swap(residual_, rest_);
  }

 private:
  Place& place_;
  std::uint64_t n_;
  std::uint64_t k_;
  RegtopkScore score_;
  float threshold_ = 0.0F;
  Buffer<float> residual_;
  Buffer<float> rest_;
  Buffer<std::uint32_t> indices_;
  Buffer<std::uint32_t> last_indices_;
  Buffer<float> values_;
  Buffer<float> last_values_;
  Buffer<float> last_mean_;
  SparseSum sum_;
};

class SignStep : public StepJob {
 public:
  SignStep(const JobSetting& setting, const MethodEntry& entry, Communicator& communicator, Place& place)
      : place_(place),
        remembers_(entry.options.beta.has_value()),
        momentum_(zeros(place, remembers_ ? setting.n : 0)),
        next_(zeros(place, remembers_ ? setting.n : 0)),
        vote_(communicator, place, layout_of(setting.tensors)) {}

  void step(StepKey key, View<float>, View<float> gradient) override {
    if (!remembers_) return run(vote_, gradient, key, gradient);
    const View<const float> before = momentum_.view();
    const View<float> after = next_.view();
    const auto beta = static_cast<float>(kMomentum);
    const float fresh = 1.0F - beta;
    parallel_ranges(place_.pool(), gradient.size(), 16, [&](Range range) {
      for (std::size_t i = range.begin; i < range.end; ++i) after[i] = beta * before[i] + fresh * gradient[i];
    });
    run(vote_, after, key, gradient);
    std::swap(momentum_, next_);
  }

 private:
  Place& place_;
  bool remembers_;
  Buffer<float> momentum_;
  Buffer<float> next_;
  PackedVote vote_;
};

class QuantizedStep : public StepJob {
 public:
  QuantizedStep(const JobSetting& setting, const MethodEntry& entry, Communicator& communicator, Place& place)
      : ternary_(!entry.options.bits),
        sum_(communicator, place, layout_of(setting.tensors), {.norm = ternary_ ? Norm::max : Norm::l2}) {}
  void step(StepKey key, View<float>, View<float> gradient) override {
    run(sum_, gradient, ternary_ ? 2 : kBits, key, gradient);
  }

 private:
  bool ternary_;  ///< TernGrad, which has no choice of bits and norm
  QuantizedSum sum_;
};

/// block-quant: the residual is added, and the exchange leaves the next one.
class BlockQuantStep : public StepJob {
 public:
  BlockQuantStep(const JobSetting& setting, const MethodEntry&, Communicator& communicator, Place& place)
      : place_(place),
        residual_(zeros(place, setting.n)),
        next_residual_(zeros(place, setting.n)),
        sum_(communicator, place, Layout::in_scopes(setting.n, 256),
             {.route = QuantizedRoute::scatter,
              .return_path = QuantizedReturn::requantized,
              .norm = Norm::max,
              .rounding = Rounding::nearest}) {}
  void step(StepKey key, View<float>, View<float> gradient) override {
    axpy(place_, 1.0F, residual_.view(), gradient);
    Status status;
    sum_.start(gradient, 4, key, gradient, view_of(status), 0.0F, next_residual_.view());
    sum_.finish();
    std::swap(residual_, next_residual_);
  }

 private:
  Place& place_;
  Buffer<float> residual_;
  Buffer<float> next_residual_;
  QuantizedSum sum_;
};

/// Momentum, error and point of DEF: one pass before the exchange, one after it.
class DefStep : public StepJob {
 public:
  DefStep(const JobSetting& setting, const MethodEntry&, Communicator& communicator, Place& place)
      : place_(place), blocks_(kRatio, true), point_(setting.n), momentum_(zeros(place, setting.n)) {
    blocks_.prepare(setting.tensors);
    error_ = zeros(place, setting.n);
    next_error_ = zeros(place, setting.n);
    next_momentum_ = zeros(place, setting.n);
    for (Buffer<float>* buffer : {&mean_, &nothing_, &moved_}) *buffer = zeros(place, blocks_.size());
    copy(place, setting.start, point_.view());
    sum_ = std::make_unique<BlockSum>(communicator, place, blocks_.size());
  }

  void step(StepKey key, View<float> model, View<float> gradient) override {
    accumulate(gradient);
    const auto blocks = blocks_.draw(key);
    run(*sum_, next_error_.view(), blocks, mean_.view());
    scatter_blocks(place_, nothing_.view(), blocks, 0, next_error_.view());
    gather_blocks(place_, point_.view(), blocks, 0, moved_.view());
    axpy(place_, -1.0F, mean_.view(), moved_.view());
    scatter_blocks(place_, moved_.view(), blocks, 0, point_.view());
    std::swap(error_, next_error_);
    std::swap(momentum_, next_momentum_);
    const View<const float> x = point_.view();
    const View<const float> e = error_.view();
    const auto lambda = static_cast<float>(kLambda);
    parallel_ranges(place_.pool(), x.size(), 16, [&](Range range) {
      for (std::size_t i = range.begin; i < range.end; ++i) model[i] = x[i] - lambda * e[i];
    });
  }

 private:
  /// m = β·m + g and p = η·m + e.
  void accumulate(View<const float> gradient) {
    const View<const float> m = momentum_.view();
    const View<const float> e = error_.view();
    const View<float> next = next_momentum_.view();
    const View<float> p = next_error_.view();
    const auto beta = static_cast<float>(kMomentum);
    parallel_ranges(place_.pool(), gradient.size(), 16, [&](Range range) {
      for (std::size_t i = range.begin; i < range.end; ++i) {
        next[i] = beta * m[i] + gradient[i];
        p[i] = kMethodLearningRate * next[i] + e[i];
      }
    });
  }

  Place& place_;
  RandomBlocks blocks_;
  Buffer<float> point_;
  Buffer<float> momentum_;
  Buffer<float> next_momentum_;
  Buffer<float> error_;
  Buffer<float> next_error_;
  Buffer<float> mean_;
  Buffer<float> nothing_;
  Buffer<float> moved_;
  std::unique_ptr<BlockSum> sum_;
};

/// A local step and a round in each step: the norms of the gradient are the score, as with score = local.
class GrawaStep : public StepJob {
 public:
  GrawaStep(const JobSetting& setting, const MethodEntry& entry, Communicator& communicator, Place& place)
      : place_(place),
        tensors_(setting.tensors),
        optimizer_(entry.optimizer),
        centre_(zeros(place, setting.n)),
        scores_(communicator, place, 1, {.divide = false}),
        models_(communicator, place, setting.n, {.divide = false}) {
    optimizer_.prepare(place_, setting.n);
  }

  void step(StepKey, View<float> model, View<float> gradient) override {
    Status status;
    double norm = 0.0;
    std::uint64_t offset = 0;
    for (const Tensor& tensor : tensors_) {
      double squares = 0.0;
      sum_of_squares(place_, gradient.sub(offset, tensor.size), View<double>(&squares, 1), view_of(status));
      norm += std::sqrt(squares);
      offset += tensor.size;
    }
    optimizer_.step(place_, kMethodLearningRate, gradient, model);
    const auto inverse = static_cast<float>(1.0 / static_cast<double>(static_cast<float>(norm)));
    float sum = inverse;
    run(scores_, View<float>(&sum, 1));
    const float weight = inverse / sum;
    const View<const float> own = model;
    weighted_sum(place_, {&own, 1}, {&weight, 1}, centre_.view(), view_of(status));
    run(models_, centre_.view());
    blend(place_, static_cast<float>(kPull), centre_.view(), model);
  }

 private:
  Place& place_;
  const std::vector<Tensor>& tensors_;
  Optimizer optimizer_;
  Buffer<float> centre_;
  DenseSum scores_;
  DenseSum models_;
};

/// A local step and a round over the signs of the largest differences in each step.
class CompressedRoundStep : public StepJob {
 public:
  CompressedRoundStep(const JobSetting& setting, const MethodEntry& entry, Communicator& communicator, Place& place)
      : place_(place),
        n_(setting.n),
        k_(keep_count(kKeep, setting.n)),
        optimizer_(entry.optimizer),
        centre_(setting.n),
        next_centre_(setting.n),
        residual_(zeros(place, n_)),
        rest_(zeros(place, n_)),
        sum_(communicator, place, n_, k_, {.format = ValueFormat::sign}) {
    optimizer_.prepare(place_, setting.n);
    copy(place, setting.start, centre_.view());
    indices_.reserve(k_);
    for (Buffer<float>* buffer : {&values_, &errors_}) buffer->reserve(k_);
  }

  void step(StepKey, View<float> model, View<float> gradient) override {
    optimizer_.step(place_, kMethodLearningRate, gradient, model);
    const View<float> difference = next_centre_.view();
    const SparseView selected{indices_.view(k_), values_.view(k_)};
    Status status;
    scaled_difference(place_, 1.0F, centre_.view(), model, difference, view_of(status));
    status.threshold = threshold_;
    error_feedback_topk(place_, difference, residual_.view(), rest_.view(), selected, view_of(status));
    threshold_ = status.threshold;
    code_values(place_, ValueFormat::sign, {}, {0, 1}, selected, errors_.view(k_), view_of(status));
    scatter(place_, {selected.indices, errors_.view(k_)}, rest_.view());
    sum_.start(selected, difference, view_of(status));
    sum_.finish();
    subtract_scaled(place_, centre_.view(), 1.0F, difference, difference);
    copy(place_, difference, model);
    blend(place_, 1.0F, rest_.view(), residual_.view());
    std::swap(centre_, next_centre_);
  }

 private:
  Place& place_;
  std::uint64_t n_;
  std::uint64_t k_;
  Optimizer optimizer_;
  float threshold_ = 0.0F;
  Buffer<float> centre_;
  Buffer<float> next_centre_;
  Buffer<float> residual_;
  Buffer<float> rest_;
  Buffer<std::uint32_t> indices_;
  Buffer<float> values_;
  Buffer<float> errors_;
  SparseSum sum_;
};

template <class Job>
std::unique_ptr<StepJob> make(const JobSetting& setting, const MethodEntry& entry, Communicator& communicator,
                              Place& place) {
  return std::make_unique<Job>(setting, entry, communicator, place);
}

}  // namespace

const std::vector<MethodEntry>& method_entries() {
  static const std::vector<MethodEntry> entries{
      {"sgd", "dense sum", false, {}, {}, make<DenseStep<ValueFormat::f32>>},
      {"adam", "dense sum, optimizer", true, {}, {}, make<AdamStep>},
      {"fp16", "dense sum", false, {}, {}, make<DenseStep<ValueFormat::f16>>},
      {"topk", "topk, sparse sum", false, {.keep = kKeep}, {}, make<SparseStep<false>>},
      {"regtopk", "regtopk, sparse sum, gather", false, {.keep = kKeep}, {}, make<SparseStep<true>>},
      {"def",
       "momentum and error, block sum, detached point",
       true,
       {.ratio = kRatio, .lambda = kLambda, .momentum = kMomentum},
       {},
       make<DefStep>},
      {"def-topk",
       "optimizer, difference, topk, signs, sparse sum, outer step, detached point",
       true,
       {.keep = kKeep, .values = "sign", .lambda = kLambda},
       {.name = "adamw"},
       make_largest_update},
      {"diloco",
       "optimizer, difference, dense sum, outer step",
       true,
       {.outer_rate = 0.7, .outer_momentum = kMomentum, .period = 1},
       {.name = "adamw"},
       make_dense_update},
      {"sparseloco",
       "optimizer, difference, topk by chunk, two magnitudes, sparse sum, decay, outer step",
       true,
       {.keep = kKeep, .scope = "chunk", .values = "two", .decay = 0.95, .period = 1},
       {.name = "adamw"},
       make_largest_update},
      {"signsgd", "vote", false, {}, {}, make<SignStep>},
      {"signum", "momentum, vote", false, {.beta = kMomentum}, {}, make<SignStep>},
      {"qsgd", "quantized sum", false, {.bits = kBits}, {}, make<QuantizedStep>},
      {"terngrad", "quantized sum", false, {}, {}, make<QuantizedStep>},
      {"block-quant", "residual, quantized sum by chunk", false, {}, {}, make<BlockQuantStep>},
      {"mgrawa",
       "norms, optimizer, weight, dense sum, pull",
       true,
       {.period = 1, .pull = kPull, .proximity = 0.0, .smoothing = 0.0, .score = "local"},
       {.momentum = kMomentum},
       make<GrawaStep>},
      {"localsgd",
       "optimizer, difference, topk, signs, sparse sum, error",
       true,
       {.keep = kKeep, .values = "sign", .period = 1},
       {.momentum = kMomentum},
       make<CompressedRoundStep>},
  };
  return entries;
}

namespace {

class ReducedMethod : public StepJob {
 public:
  explicit ReducedMethod(std::unique_ptr<GradientMethod> method) : method_(std::move(method)) {}
  void step(StepKey key, View<float>, View<float> gradient) override { method_->reduce(key, gradient); }

 private:
  std::unique_ptr<GradientMethod> method_;
};

class SteppedMethod : public StepJob {
 public:
  explicit SteppedMethod(std::unique_ptr<ModelMethod> method) : method_(std::move(method)) {}
  void step(StepKey key, View<float> model, View<float> gradient) override {
    constexpr float kLoss = 0.0F;  // lsgd asks for one
    method_->step({key, kMethodLearningRate, kLoss}, model, gradient);
  }

 private:
  std::unique_ptr<ModelMethod> method_;
};

}  // namespace

std::unique_ptr<StepJob> make_whole(const JobSetting& setting, const MethodEntry& entry, Communicator& communicator,
                                    Place& place) {
  if (!entry.changes_model) {
    auto method = make_method(entry.name, entry.options, communicator, place);
    method->register_tensors(setting.tensors);
    return std::make_unique<ReducedMethod>(std::move(method));
  }
  auto method = make_model_method(entry.name, entry.options, entry.optimizer, communicator, place);
  method->register_tensors(setting.tensors);
  method->start(setting.start);
  return std::make_unique<SteppedMethod>(std::move(method));
}

std::vector<Tensor> bench_tensors(std::uint64_t n) {
  constexpr std::uint64_t kLayers = 32;
  constexpr std::uint64_t kBias = 256;
  if (n < kLayers * 2 * kBias) return {{"weight", n}};
  std::vector<Tensor> tensors;
  std::uint64_t left = n;
  for (std::uint64_t layer = kLayers; layer > 0; --layer) {
    const std::uint64_t share = left / layer;
    const std::string name = "layer" + std::to_string(kLayers - layer);
    tensors.push_back({name + ".weight", share - kBias});
    tensors.push_back({name + ".bias", kBias});
    left -= share;
  }
  return tensors;
}

}  // namespace laconic::bench
