#include "torch/train/task_workload.h"

#include "laconic/error.h"
#include "torch/train/device.h"
#include "torch/train/network_learner.h"

namespace laconic {
namespace {

/// The configuration with the task's own model where none is named.
RunConfig with_model(RunConfig config) {
  config.task.model = model_for(config.task.name, config.task.model);
  return config;
}

TaskOptions options_of(const RunConfig& config, const std::string& data_folder) {
  TaskOptions options{.data_folder = data_folder,
                      .seed = config.seed,
                      .augment = config.task.augment,
                      .train_samples = static_cast<int>(config.task.train_samples),
                      .test_samples = static_cast<int>(config.task.test_samples)};
  options.text_file = config.task.text;
  // A model that takes no characters is refused when it is made for them.
  if (const int context = nets::model_row(config.task.model).context; context > 0) options.context = context;
  return options;
}

class TaskWorkload final : public Workload {
 public:
  TaskWorkload(const RunConfig& config, const std::string& data_folder)
      : task_(make_task(config.task.name, options_of(config, data_folder))),
        sampler_(std::make_shared<Sampler>(
            task_->train_labels(), config.workers,
            SamplerOptions{.seed = config.seed,
                           .batch = static_cast<int>(config.task.batch),
                           .sampling = config.task.sampling == "epochs" ? Sampling::epochs : Sampling::replacement,
                           .skew = config.task.skew,
                           .shared_batch = static_cast<int>(config.task.scoring_batch)})) {}

  std::unique_ptr<Learner> make_learner(const RunConfig& config, int rank) const override {
    return std::make_unique<NetworkLearner>(with_model(config), task_, sampler_, rank);
  }

  std::shared_ptr<Place> copying_place(const RunConfig& config) const override {
    return config.task.device == "cpu" ? nullptr : training_place(config);
  }

  std::string note() const override { return task_->note(); }

  std::string write_text(const RunConfig& config, View<const float> model, std::uint32_t characters) const override {
    if (task_->alphabet().empty() || characters == 0) return {};
    return NetworkLearner(with_model(config), task_, sampler_, 0).write_text(model, characters);
  }

 private:
  std::shared_ptr<const Task> task_;
  std::shared_ptr<const Sampler> sampler_;
};

}  // namespace

std::unique_ptr<Workload> task_workload(const RunConfig& config, const std::string& data_folder) {
  const RunConfig whole = with_model(config);
  require_valid(whole);
  nets::model_row(whole.task.model);
  require_training_device(whole.task.device);
  return std::make_unique<TaskWorkload>(whole, data_folder);
}

}  // namespace laconic
