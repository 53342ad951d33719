#pragma once

#include "base/buffer.h"
#include "exchange/dense_sum.h"
#include "laconic/error.h"
#include "methods/model_base.h"
#include "methods/optimizer.h"
#include "methods/residual.h"
#include "methods/rounds_schedule.h"
#include "methods/settings.h"
#include "methods/update_compression.h"

namespace laconic {

/// What the round methods share: local steps on the worker's own model, the centre x_C, and rounds, in which a subclass
/// decides how models are combined. Memory: the centre, twice, so that a dropped round leaves it as it was.
///   1. x_m: a step of the local optimizer on the worker's own gradient
///   2. proximity, if the method has it: x_m = (1 - µ/τ) x_m + (µ/τ) x_C
///   3. count the step; if the schedule demands it (rounds_schedule.h), a round: meet, then pull
/// If `values` and `keep` ask for it, a round sends bits of the difference to the centre in place of the model, and the
/// worker has an error e, twice. With the method's weight w of this worker (1 in a plain mean):
///   a. p = w·(x_C − x_m) + e; c = C(p)
///   b. Δ = mean of the workers' c; if only a leader sends, its c
///   c. x_C − Δ stands for what the combined models would be, and goes on as these would: into pull
///   d. e = (1 − σ)·e + σ·(p − c), where σ is the share of its difference that pull takes from the worker's model
/// In d, the model still has the share 1 − σ of what was not sent, and offers it again in the next round. Only what left
/// the model without reaching the others is owed. A worker that did not send counts as p = c.
class RoundMethod : public ModelBase, private ChunkedStep {
 public:
  RoundMethod(const Settings& settings, const OptimizerOptions& optimizer, Communicator& communicator, Place& place,
              Senders senders = Senders::everyone);

  /// Only rounds go by chunk, and they need the whole model.
  bool streams() const override { return false; }
  std::uint64_t poll() override { return 0; }
  double residual_norm() override { return compresses() ? core().residual_norm() : 0.0; }

 protected:
  /// Sets status.nonfinite if a local step's gradient is not finite.
  virtual void check(const StepInput& input, View<const float> gradient, StatusView status);
  /// Called after a finite local step, to store what the round will need.
  virtual void observe(const StepInput& /*input*/) {}
  /// Computes the new centre from the models of all workers; only this part of a round needs the other ranks. It stores
  /// nothing, because a non-finite value, which the status reports alike on all ranks, drops the round. If such a value
  /// is not in the model, call locate_nonfinite.
  virtual void meet(View<const float> model, View<float> next_centre, StatusView status, StepReport& report) = 0;
  /// The round counts: x_m = (1 - λ) x_m + λ x_C.
  virtual void pull(View<float> model, View<float> next_centre);
  /// σ: the share of a worker's difference to the centre that pull takes from its model.
  virtual float pulled_share() const { return pull_; }
  /// Whether a round sends compressed differences, not models.
  bool compresses() const { return compression_ != nullptr; }
  /// For a: difference = x_C − x_m.
  void write_difference(View<const float> model, View<float> difference);
  /// a to c: replaces weighted differences by x_C − Δ. The second, if only the leader sends.
  void exchange_differences(View<float> differences, StatusView status, StepReport& report);
  void exchange_differences(int leader, View<float> differences, StatusView status, StepReport& report);
  /// After a round, dropped or not: a new period of steps begins.
  virtual void begin_period() {}
  /// Makes the exchanges for the current communicator.
  virtual void make_exchanges() {}
  /// For an error that only this rank knows of: throws, and the other ranks' next wait fails with the same message.
  template <class Exception = InvalidConfig>
  [[noreturn]] void refuse(const std::string& message) {
    communicator().fail(message);
    throw Exception(message);
  }

  void prepare() override;
  void save_memory(State& state) const override;
  void require_savable() const override;
  void load_memory(const State& state) override;
  void require_loadable_memory(const State& state) const override;
  /// The error. A resize replaces the local momenta by their mean as well.
  std::vector<View<float>> owed() override;
  std::vector<View<float>> shared() override { return {centre_.view(parameters())}; }
  std::vector<double> shared_numbers() const override;
  void take_numbers(std::span<const double> numbers) override;
  void regrouped() override { make_all_exchanges(); }
  void do_resize(Communicator* next) override;

  StepReport do_start(View<float> model) override;
  /// The start point, or later the centre, and the position in the schedule.
  std::vector<AgreedField> common_fields(View<const float> model) override;
  StepReport do_step(const StepInput& input, View<float> model, View<float> gradient) override;
  void do_read_out(View<const float> model, View<float> out) override { average_models(model, out); }

  View<const float> centre() const { return centre_.view(parameters()); }
  float pull_share() const { return pull_; }

 private:
  bool by_tensor() const override { return compression_->by_tensor(); }
  Exchange& start_chunk(const Chunk& chunk, GradientView differences, StatusView status, StepReport& report) override;
  void finish_chunk(const Chunk& chunk, GradientView sent, StatusView status, StepReport& report) override;
  UpdateErrors errors() const { return {residual_.view(), residual_.next()}; }
  void make_all_exchanges();
  void keep_unsent();

  void local_step(const StepInput& input, View<float> model, View<float> gradient, StepReport& report);
  void take_turns(View<float> model, StepReport& report);
  void hold_round(View<float> model, StepReport& report);
  [[noreturn]] void refuse_round(View<const float> model, const Status& status);

  static constexpr int kNoLeader = -1;

  Optimizer optimizer_;
  RoundSchedule schedule_;
  float pull_ = 1.0F;
  float proximity_ = 0.0F;  ///< µ/τ
  Buffer<float> centre_;
  Buffer<float> next_centre_;
  std::unique_ptr<UpdateCompression> compression_;  ///< null: everything travels as it is
  Residual residual_;                               ///< e
  int leader_ = kNoLeader;                          ///< of this round
  std::uint32_t last_step_ = 0;  ///< the host's number of this rank's last step
  bool at_round_ = true;         ///< no local step since the last round, or since the start
  bool newcomer_ = false;
};

}  // namespace laconic
