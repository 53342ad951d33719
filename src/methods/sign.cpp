// signSGD and Signum with majority vote (Bernstein et al. 2018, 2019), worker n.
//   1. v_n = β·v_n + (1 − β)·g_n; signSGD: v_n = g_n
//   2. send sign(v_n), one bit a coordinate; zero counts as plus
//   3. everyone: g = sign(Σ_n sign(v_n)), one bit a coordinate; ties as asked
// An SGD step with weight decay on g gives the paper's x − η(vote + λx): decay is outside the vote.
// abstain: an entry below that share of the mean |v_n| casts no vote; g is 0 where nobody votes.
// early_sign: in the first so many steps sign(g_n) votes, as the theory's warm-up asks (54 for β = 0.9).
// turns: in step t only the entries i of the model with i mod turns = t mod turns vote, and their g is turns times as
// large, so that an entry moves as far as if it voted in every step. v_n is kept up to date in all entries.

#include <cmath>
#include <optional>
#include <utility>

#include "base/buffer.h"
#include "exchange/abstaining_vote.h"
#include "exchange/packed_vote.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "kernels/stripe/stripe.h"
#include "methods/makers.h"
#include "methods/settings.h"
#include "methods/gradient_base.h"
#include "methods/state_memory.h"

namespace laconic {
namespace {

class SignMethod : public GradientBase {
 public:
  SignMethod(const Settings& settings, Communicator& communicator, Place& place)
      : GradientBase(settings.method(), communicator, place),
        beta_(settings.has("beta") ? static_cast<float>(settings.number("beta")) : 0.0F),
        ties_(settings.is("ties", "plus") ? Ties::plus : Ties::random),
        abstain_(static_cast<float>(settings.number("abstain"))),
        early_steps_(settings.has("early_sign") ? static_cast<std::uint64_t>(settings.number("early_sign")) : 0),
        turns_(settings.has("turns") ? static_cast<std::uint64_t>(settings.number("turns")) : 1) {}

  /// A momentum is averaged where ranks come or go, but no rank owes it.
  double residual_norm() override { return 0.0; }

 private:
  bool remembers() const { return beta_ > 0.0F; }
  bool takes_turns() const { return turns_ > 1; }
  Stripe stripe() const { return {steps_ % turns_, turns_}; }
  /// Who abstains is decided by the mean of the whole model, and turns are taken by an entry's place in it.
  bool by_tensor() const override { return abstain_ == 0.0F && !takes_turns(); }
  std::uint64_t usual_chunk_entries(Device device) const override {
    return device == Device::cpu ? std::uint64_t{1} << 20 : chunk_entries(device, 1.0);
  }

  void prepare() override {
    if (remembers()) {
      for (Buffer<float>* buffer : {&momentum_, &next_momentum_}) {
        buffer->reserve(place(), parameters());
        fill(place(), 0.0F, buffer->view(parameters()));
      }
    }
    for (Buffer<float>* buffer : {&voting_, &votes_of_turn_}) {
      if (takes_turns()) buffer->reserve(place(), stripe().longest_of(parameters()));
    }
    make_exchanges();
  }

  void regrouped() override { make_exchanges(); }

  void make_exchanges() {
    const auto layout = [&](const Chunk& chunk) {
      return takes_turns() ? Layout(stripe().longest_of(chunk.size)) : pipeline().layout(chunk);
    };
    if (abstain_ > 0.0F) {
      open_votes_ = pipeline().make_each([&](const Chunk& chunk, Communicator& channel) {
        return std::make_unique<AbstainingVote>(channel, place(), layout(chunk), ties_);
      });
    } else {
      votes_ = pipeline().make_each([&](const Chunk& chunk, Communicator& channel) {
        return std::make_unique<PackedVote>(channel, place(), layout(chunk), ties_);
      });
    }
  }

  /// These read and write further floats.
  bool takes_16bit() const override { return abstain_ == 0.0F && !takes_turns(); }

  Exchange& start_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport& report) override {
    report.bits = (abstain_ > 0.0F ? 2.0 : 1.0) / static_cast<double>(turns_);
    const ConstGradientView voting = of_this_turn(add_momentum(chunk, gradient, report), gradient, status, report);
    const GradientView vote = takes_turns() ? GradientView(votes_of_turn_.view()) : gradient;
    if (abstain_ > 0.0F) {
      const float least = abstain_ * mean_magnitude(place(), voting.floats());
      open_votes_[chunk.number]->start(voting.floats(), least, key(), vote.floats(), status);
      return *open_votes_[chunk.number];
    }
    votes_[chunk.number]->start(voting, key(), vote, status);
    return *votes_[chunk.number];
  }

  void finish_chunk(const Chunk&, GradientView aggregate, StatusView, StepReport&) override {
    if (takes_turns()) put_stripe(place(), votes_of_turn_.view(), static_cast<float>(turns_), stripe(), aggregate.floats());
  }

  /// What votes of `values`. A vote finds NaN and Inf in what votes; the rest of the gradient is looked at here, because
  /// it enters the momentum.
  ConstGradientView of_this_turn(ConstGradientView values, ConstGradientView gradient, StatusView status,
                                 StepReport& report) {
    if (!takes_turns()) return values;
    const Stopwatch watch(report.select_seconds);
    find_nonfinite(place(), gradient, status);
    take_stripe(place(), values.floats(), stripe(), voting_.view());
    return voting_.view();
  }

  /// v = β·v + (1 − β)·g, kept aside until the step counts. Returns what votes.
  ConstGradientView add_momentum(const Chunk& chunk, ConstGradientView gradient, StepReport& report) {
    if (!remembers()) return gradient;
    const Stopwatch watch(report.select_seconds);
    const View<const float> before = momentum_.view(parameters()).sub(chunk.offset, chunk.size);
    const View<float> after = next_momentum_.view(parameters()).sub(chunk.offset, chunk.size);
    running_mean(place(), beta_, before, gradient, after);
    return steps_ < early_steps_ ? gradient : ConstGradientView(after);
  }

  void commit() override {
    std::swap(momentum_, next_momentum_);
    ++steps_;
  }

  std::vector<View<float>> owed() override {
    if (!remembers()) return {};
    return {momentum_.view(parameters())};
  }

  /// All ranks leave the early steps together.
  std::vector<double> shared_numbers() const override { return {static_cast<double>(steps_)}; }
  void take_numbers(std::span<const double> numbers) override { steps_ = static_cast<std::uint64_t>(numbers[0]); }

  void save_memory(State& state) const override {
    state.put("steps", static_cast<double>(steps_));
    if (remembers()) put_memory(state, "momentum", place(), momentum_.view(parameters()));
  }

  void require_loadable_memory(const State& state) const override {
    MethodMemory::require_loadable_memory(state);
    state.count("steps");
  }

  void load_memory(const State& state) override {
    steps_ = state.count("steps");
    if (remembers()) get_memory(state, "momentum", place(), momentum_.view(parameters()));
  }

  float beta_;
  Ties ties_;
  float abstain_;
  std::uint64_t early_steps_;
  std::uint64_t turns_;
  std::uint64_t steps_ = 0;
  Buffer<float> momentum_;
  Buffer<float> next_momentum_;
  Buffer<float> voting_;         ///< entries whose turn it is
  Buffer<float> votes_of_turn_;  ///< what became of them
  std::vector<std::unique_ptr<PackedVote>> votes_;
  std::vector<std::unique_ptr<AbstainingVote>> open_votes_;
};

}  // namespace

std::unique_ptr<GradientBase> make_sign(const Settings& settings, Communicator& communicator, Place& place) {
  return std::make_unique<SignMethod>(settings, communicator, place);
}

}  // namespace laconic
