// QSGD (Alistarh et al. 2017) and TernGrad (Wen et al. 2017): stochastic quantization with a fixed number of bits.
//   1. norm of each scope: ℓ2 or max
//   2. each entry becomes norm · sign · level/s, s = 2^(bits-1) - 1, rounded up or down so that its mean is right
//   3. send fields of `bits` and a norm a scope
//   4. everyone: g = mean of what the workers sent
// TernGrad is 2 bits (levels -1, 0, 1) of the largest magnitude. No error feedback, no memory.

#include "methods/quantized.h"

#include "methods/makers.h"

namespace laconic {

QuantizedSumOptions quantized_options(const Settings& settings) {
  QuantizedSumOptions options;
  options.route = settings.is("route", "scatter") ? QuantizedRoute::scatter : QuantizedRoute::gather;
  if (settings.is("return", "requantized")) options.return_path = QuantizedReturn::requantized;
  const bool l2 = settings.has("norm") && settings.is("norm", "l2");  // TernGrad has no choice: the largest magnitude
  options.norm = l2 ? Norm::l2 : Norm::max;
  if (options.route == QuantizedRoute::gather && options.return_path == QuantizedReturn::requantized) {
    throw InvalidConfig(settings.method() +
                        ": return = requantized needs sums that come back, got route = gather: set route = scatter");
  }
  return options;
}

bool quantizes_by_tensor(const Settings& settings) {
  return settings.is("scope", "tensor") && settings.is("return", "full");
}

std::vector<std::unique_ptr<QuantizedSum>> quantized_sums(const Settings& settings, const QuantizedSumOptions& options,
                                                          const ChunkPipeline& pipeline, Place& place) {
  return pipeline.make_each([&](const Chunk& chunk, Communicator& channel) {
    Layout layout = settings.is("scope", "model") ? Layout(chunk.size) : pipeline.layout(chunk);
    return std::make_unique<QuantizedSum>(channel, place, std::move(layout), options);
  });
}

namespace {

class FixedBits : public GradientBase {
 public:
  FixedBits(const Settings& settings, Communicator& communicator, Place& place)
      : GradientBase(settings.method(), communicator, place),
        settings_(settings),
        options_(quantized_options(settings)),
        bits_(settings.has("bits") ? settings.whole("bits") : 2) {
    options_.most_bits = bits_;
  }

 private:
  bool by_tensor() const override { return quantizes_by_tensor(settings_); }
  void prepare() override { regrouped(); }
  void regrouped() override { sums_ = quantized_sums(settings_, options_, pipeline(), place()); }
  void save_memory(State&) const override {}
  void load_memory(const State&) override {}

  Exchange& start_chunk(const Chunk& chunk, View<float> gradient, StatusView status, StepReport& report) override {
    report.bits = bits_;
    sums_[chunk.number]->start(gradient, bits_, key(), gradient, status);
    return *sums_[chunk.number];
  }
  void commit() override {}

  Settings settings_;
  QuantizedSumOptions options_;
  int bits_;
  std::vector<std::unique_ptr<QuantizedSum>> sums_;
};

}  // namespace

std::unique_ptr<GradientBase> make_quantized(const Settings& settings, Communicator& communicator, Place& place) {
  return std::make_unique<FixedBits>(settings, communicator, place);
}

}  // namespace laconic
