// DQ-SGD (Yan, Huang, Lan, Song 2021): the bits are chosen step by step from the gradient's norm.
//   1. B_n from the rule (bit_rule.h) and the norm; one B for the whole model, the same on all ranks
//   2. quantize to B_n bits as QSGD does
//   3. everyone: g = mean of what the workers sent
// The norm is, by norm_source:
//   workers    the mean over the last `window` steps of the workers' mean norm; each payload carries its rank's
//   aggregate  the mean over the last `window` steps of the aggregate's norm, which quantization noise inflates
//   exact      this step's mean norm of the workers, gathered before (4 bytes from each)
// The first step has no steps before it and gathers. A norm is the root of the tensors' squares, added in order. The
// rule's norms are those of the gradients, with memory = error too, where what is quantized also has the residual.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/scratch_status.h"
#include "exchange/gathered_numbers.h"
#include "kernels/norm/norm.h"
#include "methods/bit_rule.h"
#include "methods/makers.h"
#include "methods/quantized.h"

namespace laconic {
namespace {

class Dqsgd : public GradientBase {
 public:
  Dqsgd(const Settings& settings, Communicator& communicator, Place& place)
      : GradientBase(settings.method(), communicator, place),
        settings_(settings),
        options_(quantized_options(settings)),
        from_aggregate_(settings.is("norm_source", "aggregate")),
        exact_(settings.is("norm_source", "exact")),
        window_(settings.has("window") ? static_cast<std::size_t>(settings.number("window")) : 1),
        memory_(settings) {
    BitRule(settings, 1);  // refuses settings here; the number of parameters, known later, decides nothing about that
  }

 private:
  bool by_tensor() const override { return quantizes_by_tensor(settings_) && !exact_; }
  /// Its bits change from step to step, chunks do not.
  std::uint64_t usual_chunk_entries(Device device) const override { return chunk_entries(device, 8.0); }
  bool waits_for_all() const override { return exact_ || norms_.empty(); }

  void prepare() override {
    rule_ = std::make_unique<BitRule>(settings_, parameters());
    norms_.reserve(window_);
    for (const Tensor& tensor : tensors()) sizes_.push_back(tensor.size);
    squares_.resize(tensors().size());
    aggregate_squares_.resize(tensors().size());
    memory_.prepare(place(), parameters());
    make_exchanges();
  }

  std::vector<View<float>> owed() override { return memory_.owed(); }

  /// A newcomer knows no norms, and all must gather or none: the next step gathers.
  void regrouped() override {
    norms_.clear();
    make_exchanges();
  }

  std::vector<double> shared_numbers() const override {
    const BitRule::Counts counts = rule_->counts();
    return {counts.begin(), counts.end()};
  }
  void take_numbers(std::span<const double> numbers) override {
    BitRule::Counts counts{};
    std::copy(numbers.begin(), numbers.end(), counts.begin());
    rule_->set_counts(counts);
  }

  void make_exchanges() {
    sums_ = quantized_sums(settings_, options_, pipeline(), place());
    gathered_ = std::make_unique<GatheredNumbers>(communicator(), place(), 1);
  }

  void read_chunk(const Chunk& chunk, ConstGradientView gradient, StatusView status, StepReport& report) override {
    read_squares(chunk, gradient, squares_, status, report);
  }

  /// The norm of an aggregate is that before it is rounded.
  bool takes_16bit() const override { return !memory_.remembers() && !from_aggregate_; }

  Exchange& start_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport& report) override {
    if (chunk.number == 0) choose_bits(report);
    // The norm of the whole gradient rides with the last chunk, when every tensor has been read.
    const bool last = chunk.number == pipeline().last().number;
    const float own = last ? norm_of(squares_) : 0.0F;
    if (!std::isfinite(own)) raise_nonfinite(place(), status);
    const View<float> rest = memory_.add_to(place(), chunk, gradient);
    sums_[chunk.number]->start(gradient, bits_, key(), gradient, status, finite_or_zero(own), rest);
    return *sums_[chunk.number];
  }

  void finish_chunk(const Chunk& chunk, GradientView aggregate, StatusView status, StepReport& report) override {
    if (from_aggregate_) read_squares(chunk, aggregate, aggregate_squares_, status, report);
  }

  void choose_bits(StepReport& report) {
    // Whether it is finite, the last chunk tells.
    rule_norm_ = waits_for_all() ? gathered_mean(finite_or_zero(norm_of(squares_)), report) : mean(norms_);
    bits_ = rule_->bits(rule_norm_);
    report.bits = bits_;
    report.extra = rule_norm_;
  }

  void commit() override {
    memory_.commit();
    rule_->spent(bits_, rule_norm_);
    if (norms_.size() == window_) norms_.erase(norms_.begin());
    norms_.push_back(from_aggregate_ ? double{finite_or_zero(norm_of(aggregate_squares_))}
                                     : mean(sums_.back()->own_norms()));
  }

  void read_squares(const Chunk& chunk, ConstGradientView values, std::vector<double>& squares, StatusView status,
                    StepReport& report) {
    const Stopwatch watch(report.select_seconds);
    const auto of_chunk = [&](auto& each) { return std::span(each).subspan(chunk.first_tensor, chunk.tensor_count); };
    read_sums_of_squares(place(), values, of_chunk(sizes_), of_chunk(squares), status);
  }

  /// ℓ2 norm of all tensors.
  static float norm_of(const std::vector<double>& squares) {
    return static_cast<float>(std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0)));
  }
  static float finite_or_zero(float norm) { return std::isfinite(norm) ? norm : 0.0F; }

  double gathered_mean(float own, StepReport& report) {
    const ScratchStatus status(place());
    gathered_->start(View<const float>(&own, 1), status.view());
    gathered_->finish();
    report.traffic += gathered_->traffic();
    double sum = 0.0;
    for (int rank = 0; rank < ranks(); ++rank) sum += double{gathered_->of(rank)[0]};
    return sum / ranks();
  }

  template <class Numbers>
  static double mean(const Numbers& numbers) {
    double sum = 0.0;
    for (const auto number : numbers) sum += static_cast<double>(number);
    return sum / static_cast<double>(numbers.size());
  }

  void save_memory(State& state) const override {
    rule_->save(state);
    state.put("norms known", static_cast<double>(norms_.size()));
    // As long at the start as with a full window, so that a checkpoint can be read into the memory of a fresh run.
    std::vector<std::uint32_t> words(2 * window_);
    std::memcpy(words.data(), norms_.data(), norms_.size() * sizeof(double));
    state.put("norms", View<const std::uint32_t>(words));
    memory_.save(place(), state);
  }

  void require_loadable_memory(const State& state) const override {
    MethodMemory::require_loadable_memory(state);
    BitRule::require_loadable(state);
    for (const double norm : saved_norms(state)) {
      if (norm >= 0.0 && norm <= double{std::numeric_limits<float>::max()}) continue;
      throw InvalidConfig("saved state's norms must be 0 or more and finite in float32, got " + text_of(norm) +
                          ": load a state as it was saved");
    }
  }

  void load_memory(const State& state) override {
    rule_->load(state);
    const std::vector<double> norms = saved_norms(state);
    norms_.assign(norms.begin(), norms.end());
    memory_.load(place(), state);
  }

  std::vector<double> saved_norms(const State& state) const {
    std::vector<std::uint32_t> words(2 * window_);
    state.get("norms", View<std::uint32_t>(words));
    std::vector<double> norms(state.count("norms known", window_));
    if (!norms.empty()) std::memcpy(norms.data(), words.data(), norms.size() * sizeof(double));
    return norms;
  }

  Settings settings_;
  QuantizedSumOptions options_;
  bool from_aggregate_;
  bool exact_;
  std::size_t window_;
  RoundingMemory memory_;
  std::vector<double> norms_;    ///< of the last steps, oldest first
  std::vector<std::uint64_t> sizes_;  ///< of each tensor
  std::vector<double> squares_;       ///< of each tensor
  std::vector<double> aggregate_squares_;
  double rule_norm_ = 0.0;
  int bits_ = 0;
  std::unique_ptr<BitRule> rule_;
  std::vector<std::unique_ptr<QuantizedSum>> sums_;
  std::unique_ptr<GatheredNumbers> gathered_;
};

}  // namespace

std::unique_ptr<GradientBase> make_dqsgd(const Settings& settings, Communicator& communicator, Place& place) {
  return std::make_unique<Dqsgd>(settings, communicator, place);
}

}  // namespace laconic
