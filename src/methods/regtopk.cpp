// RegTop-k (Bereyhi, Liang, Boudreau, Afana 2025), worker n with weight ω = 1/W.
//   1. a = g + e
//   2. Δ = (g_last − ω·a_last) / (ω·D) on the last support, huge elsewhere; D = a_last (previous) or a (current)
//   3. score = |a| · tanh(|1 + Δ| / μ)
//   4. s = top-k of the score; send s ⊙ a, unscaled
//   5. e = a − s ⊙ a
//   6. everyone: g = Σ ω · what the workers sent
// 1 to 5 are one pass (kernels/regtopk). Remembers k entries: the support with a and g on it. The first step is Top-k.

#include "kernels/regtopk/regtopk.h"

#include <utility>

#include "kernels/elementwise/elementwise.h"
#include "kernels/sparse/sparse.h"
#include "laconic/error.h"
#include "methods/makers.h"
#include "methods/sparse_method.h"
#include "methods/state_memory.h"

namespace laconic {
namespace {

class Regtopk : public SparseMethod {
 public:
  Regtopk(const Settings& settings, Communicator& communicator, Place& place)
      : SparseMethod(settings, Selection::own, communicator, place) {
    score_.mu = static_cast<float>(settings.number("mu"));
    score_.denominator = settings.is("denominator", "current") ? Denominator::current : Denominator::previous;
  }

 private:
  /// The support of a step, scope after scope, indices counted from the scope's start.
  struct Support {
    Buffer<std::uint32_t> indices;
    Buffer<float> corrected;
    Buffer<float> aggregate;
    bool known = false;
  };

  void prepare() override {
    SparseMethod::prepare();
    for (Support* support : {&last_, &next_}) {
      support->indices.reserve(place(), scopes().selected());
      support->corrected.reserve(place(), scopes().selected());
      support->aggregate.reserve(place(), scopes().selected());
    }
    score_.weight = 1.0F / static_cast<float>(ranks());
  }

  void regrouped() override {
    SparseMethod::regrouped();
    last_.known = false;  // its aggregate was over other workers
    score_.weight = 1.0F / static_cast<float>(ranks());
  }

  Exchange& compress(const Chunk& chunk, const ChunkFeedback& feedback, StatusView status,
                     StepReport& report) override {
    const auto highest_scores = [&](const ChunkFeedback& own, const ChunkSelection& selection,
                                    const Thresholds& thresholds, SparseView selected, StatusView own_status) {
      const auto known = [&](auto all) { return selection.of_selected(all).sub(0, last_.known ? selection.count : 0); };
      const LastSupport last{known(last_.indices.view()), known(last_.corrected.view()), known(last_.aggregate.view())};
      error_feedback_regtopk_by_scope(place(), own.values, own.residual, own.rest, selection.scopes, thresholds, last,
                                      score_, selected, own_status);  // 1 to 5
    };
    ChunkFeedback asking = feedback;
    asking.own_means = compression().selection(chunk).of_selected(next_.aggregate.view());
    return compression().start(chunk, asking, highest_scores, status, report);
  }

  void remember(const ChunkSelection& selection, ConstSparseView sent) override {
    indices_in_scopes(place(), selection.scopes, sent.indices, selection.of_selected(next_.indices.view()));
    copy(place(), sent.values, selection.of_selected(next_.corrected.view()));
    next_.known = true;
  }

  void committed() override { std::swap(last_, next_); }

  void save_memory(State& state) const override {
    SparseMethod::save_memory(state);
    // As long before the first step as after it, so that a checkpoint can be read into the memory of a fresh run.
    state.put("support known", last_.known ? 1.0 : 0.0);
    if (last_.known) {
      put_memory(state, "support", place(), last_.indices.view(scopes().selected()));
      put_memory(state, "support's a", place(), last_.corrected.view(scopes().selected()));
      put_memory(state, "support's g", place(), last_.aggregate.view(scopes().selected()));
    } else {
      const std::vector<float> no_values(scopes().selected());
      state.put("support", View<const std::uint32_t>(std::vector<std::uint32_t>(scopes().selected())));
      state.put("support's a", View<const float>(no_values));
      state.put("support's g", View<const float>(no_values));
    }
  }

  void require_loadable_memory(const State& state) const override {
    SparseMethod::require_loadable_memory(state);
    if (state.count("support known", 1) == 0) return;
    std::vector<std::uint32_t> indices(scopes().selected());
    state.get("support", View<std::uint32_t>(indices));
    for (const Scope& scope : scopes().all()) {
      std::uint64_t least = 0;  // indices of a scope ascend
      for (std::uint64_t i = scope.first; i < scope.first + scope.count; ++i) {
        if (indices[i] >= least && indices[i] < scope.size) {
          least = std::uint64_t{indices[i]} + 1;
          continue;
        }
        throw InvalidConfig("saved state's support must ascend and stay below " + std::to_string(scope.size) +
                            ", got " + std::to_string(indices[i]) + " where " + std::to_string(least) +
                            " is the least: load a state as it was saved");
      }
    }
  }

  void load_memory(const State& state) override {
    SparseMethod::load_memory(state);
    last_.known = state.count("support known", 1) != 0;
    const std::uint64_t count = scopes().selected();
    get_memory(state, "support", place(), last_.indices.view(count));
    get_memory(state, "support's a", place(), last_.corrected.view(count));
    get_memory(state, "support's g", place(), last_.aggregate.view(count));
  }

  RegtopkScore score_;
  Support last_;
  Support next_;
};

}  // namespace

std::unique_ptr<GradientBase> make_regtopk(const Settings& settings, Communicator& communicator, Place& place) {
  return std::make_unique<Regtopk>(settings, communicator, place);
}

}  // namespace laconic
