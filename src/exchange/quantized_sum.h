#pragma once

#include "base/buffer.h"
#include "base/philox.h"
#include "exchange/owner_exchange.h"
#include "kernels/norm/norm.h"
#include "kernels/quantize/quantize.h"
#include "laconic/key.h"

namespace laconic {

enum class QuantizedRoute : std::uint8_t { gather, scatter };
enum class QuantizedReturn : std::uint8_t { full, requantized };

struct QuantizedSumOptions {
  QuantizedRoute route = QuantizedRoute::gather;
  /// For scatter: sums are returned in float32 or quantized a second time. The papers' bounds do not cover the noise of
  /// the second quantization.
  QuantizedReturn return_path = QuantizedReturn::full;
  Norm norm = Norm::l2;  ///< of each scope of the layout
  Rounding rounding = Rounding::stochastic;
  int most_bits = 16;  ///< room is made for fields of up to this many bits; a step with more allocates
};

/// Mean over all ranks of values quantized to B bits, with a norm for each scope of the layout: its tensors, or fixed
/// scopes.
///
/// gather:  1. quantize; all-gather: (W-1)·(n·B/8 + 4 per scope)
///          2. decode and add in rank order
/// scatter: 1. quantize, cut into W ranges; all-to-all: (W-1)/W·n·B/8 and the norms of the scopes that a range touches
///          2. each owner adds its range's W payloads in rank order; all-gather in float32: (W-1)/W·4n,
///             or requantized: (W-1)/W·n·B/8, with draws by coordinate, so that the result does not depend on the owner
///          3. decode
/// gather and scatter with the full return give the same bits.
///
/// If a rest is asked for, nothing is lost: W·mean and the ranks' rests add up to the ranks' values, up to float
/// rounding. A requantized return then quantizes the sum itself, and every rank divides what it decodes. The owner adds
/// the error of the sum to its own rest.
class QuantizedSum : public OwnerExchange {
 public:
  QuantizedSum(Communicator& communicator, Place& place, Layout layout, QuantizedSumOptions options = {});

  /// bits in 2..16, the same on all ranks. `mean` may be `values`. key gives seed, step and rank of the roundings.
  /// `own_norm` is sent in the header of this rank's payloads, without additional bytes. If `rest` is not empty, it has
  /// after finish what this rank's values had and its messages did not. It must not overlap the other views, and all
  /// ranks must ask for it or none.
  void start(ConstGradientView values, int bits, StepKey key, GradientView mean, StatusView status,
             float own_norm = 0.0F, View<float> rest = {});

  /// After finish: the own_norm of every rank, by rank. The same on all ranks.
  std::span<const float> own_norms() const { return own_norms_; }

 private:
  Handle stage(int index) override;

  Handle gather_payloads();
  void sum_gathered();

  void write_ranges() override;
  void make_own_range() override;
  bool read_ranges() override;

  RandomStream stream(Purpose purpose, std::uint32_t rank) const { return {key_.seed, key_.step, rank, 0, purpose}; }
  void quantize_mine(int slot, std::uint64_t begin, std::uint64_t end);
  void add_in_rank_order(Slots& slots, std::uint64_t begin, std::uint64_t end, float divisor, GradientView out);
  void encode_return(View<const float> sum);
  void take_return_norms(View<const float> sum);
  bool keeps_rest() const { return !rest_.empty(); }
  bool requantizes() const { return options_.return_path == QuantizedReturn::requantized; }
  /// Whether owners return sums, which every rank divides, and not means.
  bool divides_last() const { return requantizes() && keeps_rest(); }
  std::uint64_t return_bytes(int owner) const;

  Layout layout_;
  QuantizedSumOptions options_;
  int bits_ = 0;
  StepKey key_;
  ConstGradientView values_;
  GradientView mean_;
  View<float> rest_;
  float own_norm_ = 0.0F;
  std::vector<float> own_norms_;
  Buffer<float> norms_;
};

}  // namespace laconic
