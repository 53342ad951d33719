#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "laconic/method.h"
#include "laconic/methods.h"

namespace laconic::test {

/// What the round methods' tests ask of every method: settings of the page's formulas.
struct RoundSettings {
  std::string method;
  std::uint64_t period = 4;
  double pull = 0.5;
  double proximity = 0.01;
  double smoothing = 0.43046721;
  bool local_scores = false;
  double learning_rate = 0.05;
  double momentum = 0.9;  ///< Nesterov's; 0 for none
};

/// A worker's own quadratic, whose curvature and target differ by rank: gradient of rank `rank` at a point, in float64
/// or float32; `noise` changes from step to step. Rank kSharedBatch is the batch that all workers share.
constexpr int kSharedBatch = 1000;
std::vector<double> quadratic_gradient(const std::vector<double>& point, int rank, std::uint32_t step);
std::vector<float> quadratic_gradient(View<const float> point, int rank, std::uint32_t step);

/// The training loss that the workers report: a fixed table, so that leaders change from round to round.
float reported_loss(int rank, std::uint32_t step);

/// The settings as options of the method.
MethodOptions options_of(const RoundSettings& settings);
/// For set_scoring.
void score_on_shared_batch(View<const float> model, View<float> gradient);

/// All workers of a round method in lockstep, in float64, written from the pages: local step, proximity, round.
class RoundModel {
 public:
  RoundModel(RoundSettings settings, int workers, std::vector<Tensor> tensors, double start);

  /// Every worker's step number `step`, and the round if one is due.
  void step(std::uint32_t number);

  const std::vector<double>& model(int rank) const { return models_[static_cast<std::size_t>(rank)]; }
  const std::vector<double>& centre() const { return centre_; }
  /// β of each worker and layer in the last round of GRAWA (one layer for MGRAWA); the last leader of LSGD.
  const std::vector<std::vector<double>>& weights() const { return weights_; }
  int leader() const { return leader_; }
  std::uint64_t rounds() const { return rounds_; }
  /// What a round still owes, if it compresses.
  const std::vector<double>& error(int rank) const { return errors_[static_cast<std::size_t>(rank)]; }
  /// From now on rounds send bits of the difference to the centre: c of worker m, and σ, the share that the pull takes.
  using Compressor = std::function<std::vector<double>(const std::vector<double>& p, std::size_t worker, double share)>;
  Compressor compress;
  /// How a mean comes back, if not as it is.
  std::function<std::vector<double>(const std::vector<double>& mean)> returned;

 private:
  using Vector = std::vector<double>;

  Vector layer_norms(const Vector& gradient) const;
  void round();
  void grawa_round();
  void elastic_round();
  void leader_round();
  void average_round();
  void pull_all();
  double share() const;
  /// The mean of the models with weights whose mean over the workers is 1, or what stands for it.
  template <class Weight>
  Vector combined(const Weight& weight);
  /// c of a worker, whose error becomes what the round leaves.
  Vector coded_difference(std::size_t worker, const std::function<double(std::size_t)>& weight);

  RoundSettings settings_;
  std::vector<Tensor> tensors_;
  std::vector<Vector> models_;
  std::vector<Vector> momenta_;
  Vector centre_;
  std::vector<Vector> errors_;
  std::vector<Vector> scores_;     ///< s, by worker and layer
  std::vector<Vector> norm_sums_;  ///< since the last round, by worker and layer
  std::vector<Vector> weights_;
  std::vector<double> losses_;
  std::uint64_t steps_ = 0;  ///< since the last round
  std::uint64_t rounds_ = 0;
  int leader_ = -1;
};

}  // namespace laconic::test
