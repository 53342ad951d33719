#pragma once

#include <memory>

#include "data/sampler.h"
#include "data/task.h"
#include "experiment/run.h"
#include "torch/train/device.h"
#include "torch/train/flat.h"

namespace laconic {

/// A worker's replica, on the device that the configuration names. Used in one thread.
class NetworkLearner final : public Learner {
 public:
  NetworkLearner(const RunConfig& config, std::shared_ptr<const Task> task, std::shared_ptr<const Sampler> sampler,
                 int rank);

  const std::vector<Tensor>& tensors() const override { return network_.tensors(); }
  Place& place() override { return *place_; }
  std::string device() const override { return training_device_text(config_.task.device); }
  void start(View<float> model) override;
  bool tells_when_ready() const override { return true; }
  double gradient(std::uint32_t step, View<float> model, View<float> gradient, const Ready& ready) override;
  void shared_gradient(std::uint32_t round, View<const float> model, View<float> gradient) override;
  Evaluation evaluate(View<float> point, Communicator* group) override;
  void write_model(const std::string& path, View<const float> point) override;
  void save(State& state) const override;
  void load(const State& state) override;

  /// Text that the model writes at a point in CPU memory: each character is drawn from what the model predicts behind
  /// those before it. It begins behind a line break. Only for tasks of characters.
  std::string write_text(View<const float> point, std::uint32_t characters);

  FlatNetwork& network() { return network_; }
  const Task& task() const { return *task_; }
  /// The statistics that batch norm uses when this point is tested. Collective, like evaluate. The learner's own
  /// statistics are not changed.
  std::vector<float> statistics_at(View<float> point, Communicator* group);
  /// The mean loss of a batch at the parameters to which the network is bound. Its graph is kept for backward.
  torch::Tensor loss_of(std::span<const std::uint32_t> samples, std::uint32_t epoch);

 private:
  /// Sums over predictions: one per sample, or one per character.
  struct Count {
    double loss = 0.0;
    std::uint64_t right = 0;
    std::uint64_t predictions = 0;
  };

  /// CPU memory for a batch. For a GPU it is pinned, so that a copy from there does not wait.
  torch::Tensor batch_memory(at::IntArrayRef sizes, torch::ScalarType type) const;
  torch::Tensor on_device(const torch::Tensor& batch) const;
  torch::Tensor inputs_of(std::span<const std::uint32_t> samples, std::uint32_t epoch) const;
  torch::Tensor test_inputs(std::uint32_t first, std::uint32_t count) const;
  /// Dropout, if the network has it, is drawn by (seed, epoch, sample), like augmentation.
  torch::Tensor logits_of(std::span<const std::uint32_t> samples, std::uint32_t epoch);
  torch::Tensor test_logits(const torch::Tensor& input);
  torch::Tensor targets_of(std::span<const std::uint32_t> samples) const;
  void settle_statistics(Communicator* group);
  torch::Tensor test_targets(std::uint32_t first, std::uint32_t count) const;
  /// Samples of one forward pass over the test set.
  std::uint32_t test_batch() const;
  Evaluation evaluation_of(const Count& count) const;
  Count test(std::uint32_t first, std::uint32_t last);

  RunConfig config_;
  std::shared_ptr<const Task> task_;
  std::shared_ptr<const Sampler> sampler_;
  int rank_;
  std::shared_ptr<Place> place_;
  TorchOnPlace on_place_;  ///< before the network: its memory is torch's on that stream
  FlatNetwork network_;
  std::vector<std::uint32_t> samples_;
  std::vector<float> own_statistics_;     ///< of training, while others are in use
  std::vector<float> tested_statistics_;  ///< of the last evaluation
};

}  // namespace laconic
