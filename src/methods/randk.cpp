// Random-k with error feedback.
//   1. a = g + e
//   2. s = k entries of a, each set of k as likely as any other, drawn alike on all workers
//   3. send s ⊙ a; no index travels, but a signature of the draw, so that ranks which drew others are refused
//   4. e = a − what was sent
//   5. everyone: g = mean of what the workers sent
// 2 is exactly uniform for every n and k (kernels/sparse/draw.h). Values of 16 bits are rounded before they are sent and
// the rounding stays in e; the mean's own rounding on its way back does not.

#include "base/philox.h"
#include "codecs/signature.h"
#include "exchange/dense_sum.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/sparse/draw.h"
#include "kernels/sparse/sparse.h"
#include "laconic/error.h"
#include "methods/makers.h"
#include "methods/gradient_base.h"
#include "methods/residual.h"
#include "methods/scopes.h"
#include "methods/sum_options.h"

namespace laconic {
namespace {

class Randk : public GradientBase {
 public:
  Randk(const Settings& settings, Communicator& communicator, Place& place)
      : GradientBase(settings.method(), communicator, place),
        keep_(settings.number("keep")),
        by_tensor_(settings.is("scope", "tensor")),
        options_{.format = value_format(settings)} {}

 private:
  struct ChunkSum : ChunkSelection {
    std::unique_ptr<DenseSum> sum;
  };

  bool by_tensor() const override { return by_tensor_; }
  std::uint64_t usual_chunk_entries(Device device) const override {
    return chunk_entries(device, keep_ * 8.0 * static_cast<double>(bytes_of(options_.format)));
  }
  void prepare() override;
  void regrouped() override;
  void save_memory(State& state) const override { residual_.save(place(), state); }
  void load_memory(const State& state) override { residual_.load(place(), state); }
  std::vector<View<float>> owed() override { return {residual_.view()}; }

  bool takes_16bit() const override { return true; }
  Exchange& start_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport& report) override;
  void finish_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport& report) override;
  void commit() override { residual_.commit(); }

  SparseView selected(const ChunkSum& chunk_sum) const {
    return {chunk_sum.of_selected(indices_.view()), chunk_sum.of_selected(values_.view())};
  }

  double keep_;
  bool by_tensor_;
  DenseSumOptions options_;
  Scopes scopes_;
  Residual residual_;
  Buffer<std::uint32_t> indices_;
  Buffer<float> values_;
  Buffer<float> left_;          ///< what sending leaves of the selected: nothing, or the rounding
  std::vector<ChunkSum> sums_;  ///< by chunk
};

void Randk::prepare() {
  if (parameters() > 0xFFFF'FFFFU) {
    throw InvalidConfig("randk takes models of up to 4294967295 parameters, got " + std::to_string(parameters()) +
                        ": its indices have 32 bits");
  }
  scopes_.prepare(tensors(), keep_, by_tensor_);
  residual_.prepare(place(), parameters());
  indices_.reserve(place(), scopes_.selected());
  values_.reserve(place(), scopes_.selected());
  left_.reserve(place(), scopes_.selected());
  fill(place(), 0.0F, left_.view(scopes_.selected()));
  regrouped();
}

void Randk::regrouped() {
  sums_ = pipeline().make_each([&](const Chunk& chunk, Communicator& channel) {
    ChunkSum chunk_sum{scopes_.of(chunk), nullptr};
    chunk_sum.sum = std::make_unique<DenseSum>(channel, place(), chunk_sum.count, options_);
    return chunk_sum;
  });
}

Exchange& Randk::start_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport& report) {
  ChunkSum& chunk_sum = sums_[chunk.number];
  const auto [indices, values] = selected(chunk_sum);
  {
    const Stopwatch watch(report.select_seconds);
    const View<float> rest = residual_.next_of(chunk);
    const View<float> left = chunk_sum.of_selected(left_.view());
    const RandomStream stream{.seed = key().seed, .step = key().step, .tensor = 0, .purpose = Purpose::random_k};
    add_residual(place(), gradient, residual_.of(chunk), rest, status);  // 1
    draw_indices(place(), stream, chunk_sum.scopes, indices);            // 2
    gather(place(), rest, indices, values);                              // 3
    if (options_.format != ValueFormat::f32) round_through_16bit(place(), options_.format, values, left, status);
    scatter(place(), {indices, left}, rest);  // 4
  }
  // Seed and step decide what was drawn; everything else that does was compared when the method was made.
  chunk_sum.sum->start(values, status, Signature(0).mix(key().seed).mix(key().step).low_word());  // 5
  return *chunk_sum.sum;
}

void Randk::finish_chunk(const Chunk& chunk, GradientView gradient, StatusView, StepReport&) {
  clear(place(), gradient);
  scatter(place(), selected(sums_[chunk.number]), gradient);
}

}  // namespace

std::unique_ptr<GradientBase> make_randk(const Settings& settings, Communicator& communicator, Place& place) {
  return std::make_unique<Randk>(settings, communicator, place);
}

}  // namespace laconic
