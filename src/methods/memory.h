#pragma once

#include <span>
#include <vector>

#include "laconic/state.h"

namespace laconic {

/// The memory of a method between steps. Every method implements it; MethodCore saves, loads and resizes through it.
class MethodMemory {
 public:
  /// The tensors are known: allocates the memory and makes the exchanges.
  virtual void prepare() = 0;
  virtual void save_memory(State& state) const = 0;
  /// Throws InvalidConfig if the state cannot be saved now.
  virtual void require_savable() const {}
  /// Called after require_loadable_memory, so it need not reject anything.
  virtual void load_memory(const State& state) = 0;
  /// By default the state must have the entries that save_memory would save, with the same sizes. A method also checks
  /// values that control a step, such as indices and counts, because a state may have been edited.
  virtual void require_loadable_memory(const State& state) const;
  /// Memory that differs between ranks and must not be lost (residuals, local momenta), the residual first. A resize
  /// replaces it by its mean over the old ranks.
  virtual std::vector<View<float>> owed() { return {}; }
  /// Memory that is the same on all ranks. A resize copies it to newcomers.
  virtual std::vector<View<float>> shared() { return {}; }
  /// Numbers that are the same on all ranks, such as counts of steps. A resize hands them to newcomers: every rank takes
  /// those of one rank that ran, before regrouped().
  virtual std::vector<double> shared_numbers() const { return {}; }
  virtual void take_numbers(std::span<const double> /*numbers*/) {}
  /// Memory that owed() lists only once a step has needed it. If one rank of a resize has it, all ranks allocate it
  /// first, as zeros.
  virtual bool has_late_memory() const { return false; }
  virtual void allocate_late_memory() {}
  /// After a resize: discards what cannot be kept and makes new exchanges for the new communicator.
  virtual void regrouped() = 0;

 protected:
  ~MethodMemory() = default;
};

}  // namespace laconic
