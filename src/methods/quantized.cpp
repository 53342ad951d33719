// QSGD (Alistarh et al. 2017) and TernGrad (Wen et al. 2017): stochastic quantization with a fixed number of bits.
//   1. norm of each scope: ℓ2 or max
//   2. each entry becomes norm · sign · level/s, s = 2^(bits-1) - 1, rounded up or down so that its mean is right
//   3. send fields of `bits` and a norm a scope
//   4. everyone: g = mean of what the workers sent
// TernGrad is 2 bits (levels -1, 0, 1) of the largest magnitude. As published, neither has a memory.
// memory = error: 1 has a = g + e in place of g, and after 3 e = a − what was sent. The owner of an index range whose
// sums return requantized adds their error to its own e, so Σ e + W·g is what all workers had.
// block-quant is that with 4 bits to the nearest level, a norm for each 256 entries and a requantized return.

#include "methods/quantized.h"

#include <bit>
#include <string>

#include "base/refusal.h"
#include "kernels/elementwise/elementwise.h"
#include "methods/makers.h"

namespace laconic {
namespace {

std::uint64_t chunk_of(const Settings& settings) { return static_cast<std::uint64_t>(settings.number("chunk")); }

}  // namespace

QuantizedSumOptions quantized_options(const Settings& settings) {
  QuantizedSumOptions options;
  options.route = settings.is("route", "scatter") ? QuantizedRoute::scatter : QuantizedRoute::gather;
  if (settings.is("return", "requantized")) options.return_path = QuantizedReturn::requantized;
  const bool l2 = settings.has("norm") && settings.is("norm", "l2");  // TernGrad has no choice: the largest magnitude
  options.norm = l2 ? Norm::l2 : Norm::max;
  if (settings.is("rounding", "nearest")) options.rounding = Rounding::nearest;
  if (options.route == QuantizedRoute::gather && options.return_path == QuantizedReturn::requantized) {
    throw Refusal({.who = settings.method(),
                   .rule = "return = requantized needs sums that come back",
                   .got = "route = gather",
                   .remedy = "set route = scatter"});
  }
  if (options.rounding == Rounding::nearest && settings.is("memory", "none")) {
    throw Refusal({.who = settings.method(),
                   .rule = "rounding = nearest needs a memory of what it rounds away",
                   .got = "memory = none",
                   .remedy = "small entries would never be sent; set memory = error"});
  }
  if (settings.has("chunk") && !std::has_single_bit(chunk_of(settings))) {
    throw InvalidConfig(settings.method() + ": chunk must be a power of two in " + std::to_string(kLeastScope) + ".." +
                        std::to_string(kMostScope) + ", got " + settings.word("chunk") + ": set " +
                        std::to_string(std::bit_floor(chunk_of(settings))));
  }
  return options;
}

bool quantizes_by_tensor(const Settings& settings) {
  return settings.is("scope", "tensor") && settings.is("return", "full");
}

std::vector<std::unique_ptr<QuantizedSum>> quantized_sums(const Settings& settings, const QuantizedSumOptions& options,
                                                          const ChunkPipeline& pipeline, Place& place) {
  return pipeline.make_each([&](const Chunk& chunk, Communicator& channel) {
    Layout layout = settings.is("scope", "chunk")   ? Layout::in_scopes(chunk.size, chunk_of(settings))
                    : settings.is("scope", "model") ? Layout(chunk.size)
                                                    : pipeline.layout(chunk);
    return std::make_unique<QuantizedSum>(channel, place, std::move(layout), options);
  });
}

void RoundingMemory::prepare(Place& place, std::uint64_t parameters) {
  if (remembers_) residual_.prepare(place, parameters);
}

View<float> RoundingMemory::add_to(Place& place, const Chunk& chunk, GradientView gradient) const {
  if (!remembers_) return {};
  axpy(place, 1.0F, residual_.of(chunk), gradient.floats());
  return residual_.next_of(chunk);
}

std::vector<View<float>> RoundingMemory::owed() const {
  if (!remembers_) return {};
  return {residual_.view()};
}

void RoundingMemory::save(Place& place, State& state) const {
  if (remembers_) residual_.save(place, state);
}

void RoundingMemory::load(Place& place, const State& state) {
  if (remembers_) residual_.load(place, state);
}

namespace {

class FixedBits : public GradientBase {
 public:
  FixedBits(const Settings& settings, Communicator& communicator, Place& place)
      : GradientBase(settings.method(), communicator, place),
        settings_(settings),
        options_(quantized_options(settings)),
        bits_(settings.has("bits") ? settings.whole("bits") : 2),
        memory_(settings) {
    options_.most_bits = bits_;
  }

 private:
  bool by_tensor() const override { return quantizes_by_tensor(settings_); }
  std::uint64_t usual_chunk_entries(Device device) const override { return chunk_entries(device, bits_); }
  void prepare() override {
    memory_.prepare(place(), parameters());
    regrouped();
  }
  void regrouped() override { sums_ = quantized_sums(settings_, options_, pipeline(), place()); }
  void save_memory(State& state) const override { memory_.save(place(), state); }
  void load_memory(const State& state) override { memory_.load(place(), state); }
  std::vector<View<float>> owed() override { return memory_.owed(); }

  bool takes_16bit() const override { return !memory_.remembers(); }
  Exchange& start_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport& report) override {
    report.bits = bits_;
    const View<float> rest = memory_.add_to(place(), chunk, gradient);
    sums_[chunk.number]->start(gradient, bits_, key(), gradient, status, 0.0F, rest);
    return *sums_[chunk.number];
  }
  void commit() override { memory_.commit(); }

  Settings settings_;
  QuantizedSumOptions options_;
  int bits_;
  RoundingMemory memory_;
  std::vector<std::unique_ptr<QuantizedSum>> sums_;
};

}  // namespace

std::unique_ptr<GradientBase> make_quantized(const Settings& settings, Communicator& communicator, Place& place) {
  return std::make_unique<FixedBits>(settings, communicator, place);
}

}  // namespace laconic
