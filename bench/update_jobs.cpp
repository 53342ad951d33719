// The bare side of compressed updates (src/methods/updates.cpp) with AdamW inside, one local step per meeting.

#include <utility>

#include "base/buffer.h"
#include "base/keep.h"
#include "bench/method_jobs.h"
#include "exchange/dense_sum.h"
#include "exchange/sparse_sum.h"
#include "kernels/coded/coded.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/sparse/sparse.h"
#include "methods/optimizer.h"

namespace laconic::bench {
namespace {

constexpr std::uint64_t kUpdateScope = 4096;  ///< entries of a fixed scope

/// What all of them do: the optimizer's step is written beside the old model and moments, and the mean of what was sent
/// moves a point that all ranks share.
class UpdateStep : public StepJob {
 public:
  UpdateStep(const JobSetting& setting, const MethodEntry& entry, Place& place)
      : place_(place),
        lambda_(static_cast<float>(entry.options.lambda.value_or(0.0))),
        outer_{.learning_rate = static_cast<float>(entry.options.outer_rate.value_or(1.0)),
               .momentum = static_cast<float>(entry.options.outer_momentum.value_or(0.0)),
               .nesterov = entry.options.outer_momentum.value_or(0.0) > 0.0},
        optimizer_(entry.optimizer),
        tried_(entry.optimizer),
        point_(setting.n),
        velocity_(outer_.momentum > 0.0F ? setting.n : 0),
        error_(setting.n),
        next_error_(setting.n) {
    optimizer_.prepare(place_, setting.n);
    tried_.prepare(place_, setting.n);
    for (const Buffer<float>* buffer : {&velocity_, &error_, &next_error_}) fill(place_, 0.0F, buffer->view());
    copy(place_, setting.start, point_.view());
  }

  void step(StepKey, View<float> model, View<float> gradient) override {
    Status status;
    tried_.take_step_of(optimizer_);
    tried_.try_part(place_, kMethodLearningRate, 0, gradient, optimizer_, model, next_error_.view());
    scaled_difference(place_, 1.0F, model, next_error_.view(), gradient, view_of(status));
    average(gradient, view_of(status));
    std::swap(optimizer_, tried_);
    sgd_step(place_, outer_, gradient, velocity_.view(), point_.view());
    if (lambda_ == 0.0F) return copy(place_, point_.view(), model);
    subtract_scaled(place_, point_.view(), lambda_, error_.view(), model);
  }

 protected:
  /// `update` is what the worker moved by, and becomes the mean of what the workers sent.
  virtual void average(View<float> update, StatusView status) = 0;

  Place& place() { return place_; }
  Buffer<float>& error() { return error_; }
  Buffer<float>& next_error() { return next_error_; }

 private:
  Place& place_;
  float lambda_;
  Coefficients outer_;
  Optimizer optimizer_;
  Optimizer tried_;
  Buffer<float> point_;
  Buffer<float> velocity_;
  Buffer<float> error_;
  Buffer<float> next_error_;
};

class DenseUpdateStep : public UpdateStep {
 public:
  DenseUpdateStep(const JobSetting& setting, const MethodEntry& entry, Communicator& communicator, Place& place)
      : UpdateStep(setting, entry, place), sum_(communicator, place, setting.n) {}

 private:
  void average(View<float> update, StatusView status) override {
    sum_.start(update, status);
    sum_.finish();
  }

  DenseSum sum_;
};

/// The largest entries of the model, or of every scope of kUpdateScope entries, coded.
class LargestUpdateStep : public UpdateStep {
 public:
  LargestUpdateStep(const JobSetting& setting, const MethodEntry& entry, Communicator& communicator, Place& place)
      : UpdateStep(setting, entry, place),
        format_(entry.options.values == "two" ? ValueFormat::two : ValueFormat::sign),
        decay_(static_cast<float>(entry.options.decay.value_or(1.0))) {
    const double keep = *entry.options.keep;
    k_ = keep_count(keep, setting.n);
    if (entry.options.scope == "chunk") {
      const std::uint64_t rest = setting.n % kUpdateScope;
      scopes_ = {kUpdateScope, keep_count(keep, kUpdateScope), keep_count(keep, rest == 0 ? kUpdateScope : rest)};
      cuts_.each = static_cast<std::uint32_t>(kUpdateScope);
      k_ = scopes_.selected(setting.n);
    }
    indices_.reserve(k_);
    for (Buffer<float>* buffer : {&values_, &coding_errors_}) buffer->reserve(k_);
    sum_ = std::make_unique<SparseSum>(communicator, place, setting.n, k_,
                                       SparseSumOptions{.format = format_, .cuts = cuts_});
  }

 private:
  void average(View<float> update, StatusView status) override {
    const SparseView selected{indices_.view(k_), values_.view(k_)};
    const View<float> rest = next_error().view();
    if (scopes_.each != 0) {
      error_feedback_topk_by_scope(place(), update, error().view(), rest, scopes_, selected, status);
    } else {
      status.data()->threshold = threshold_;
      error_feedback_topk(place(), update, error().view(), rest, selected, status);
      threshold_ = status.data()->threshold;
    }
    code_values(place(), format_, cuts_, cuts_.of(0, update.size()), selected, coding_errors_.view(k_), status);
    scatter(place(), {selected.indices, coding_errors_.view(k_)}, rest);
    sum_->start(selected, update, status);
    sum_->finish();
    std::swap(error(), next_error());
    if (decay_ != 1.0F) scale(place(), decay_, error().view());
  }

  ValueFormat format_;
  float decay_;
  std::uint64_t k_ = 0;
  FixedScopes scopes_;
  ScopeCuts cuts_;
  float threshold_ = 0.0F;
  Buffer<std::uint32_t> indices_;
  Buffer<float> values_;
  Buffer<float> coding_errors_;
  std::unique_ptr<SparseSum> sum_;
};

}  // namespace

std::unique_ptr<StepJob> make_dense_update(const JobSetting& setting, const MethodEntry& entry,
                                           Communicator& communicator, Place& place) {
  return std::make_unique<DenseUpdateStep>(setting, entry, communicator, place);
}

std::unique_ptr<StepJob> make_largest_update(const JobSetting& setting, const MethodEntry& entry,
                                             Communicator& communicator, Place& place) {
  return std::make_unique<LargestUpdateStep>(setting, entry, communicator, place);
}

}  // namespace laconic::bench
