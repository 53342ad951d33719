#pragma once

#include "exchange/quantized_sum.h"
#include "laconic/error.h"
#include "methods/gradient_base.h"
#include "methods/residual.h"
#include "methods/settings.h"

namespace laconic {

/// What the quantizing methods share: the exchange's options, which throw InvalidConfig if they contradict each other;
/// whether a tensor's exchange is independent of the others (a requantized return is not: its norms are those of the
/// owners' ranges, which span tensors); and the exchanges.
QuantizedSumOptions quantized_options(const Settings& settings);
bool quantizes_by_tensor(const Settings& settings);
std::vector<std::unique_ptr<QuantizedSum>> quantized_sums(const Settings& settings, const QuantizedSumOptions& options,
                                                          const ChunkPipeline& pipeline, Place& place);

/// What a quantizing method remembers with memory = error: what the roundings of its messages left out. With
/// memory = none it has nothing and changes nothing.
class RoundingMemory {
 public:
  explicit RoundingMemory(const Settings& settings) : remembers_(settings.is("memory", "error")) {}

  void prepare(Place& place, std::uint64_t parameters);
  /// Adds what is owed to a chunk's gradient. Returns where the exchange leaves the new rest.
  View<float> add_to(Place& place, const Chunk& chunk, GradientView gradient) const;
  /// Whether there is one. A gradient of 16 bits could not hold what it is added to.
  bool remembers() const { return remembers_; }
  /// The step counts: its rest is owed now.
  void commit() { residual_.commit(); }

  std::vector<View<float>> owed() const;
  void save(Place& place, State& state) const;
  void load(Place& place, const State& state);

 private:
  bool remembers_;
  Residual residual_;
};

}  // namespace laconic
