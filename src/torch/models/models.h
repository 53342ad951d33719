#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/task.h"
#include "laconic/place.h"

// The networks that the program trains; docs/models.md describes their sizes and design choices. Initial values are
// distributed like PyTorch's defaults, but they and dropout are drawn from our own random streams. torch's generator is
// never used, so a network is the same in every version of torch, in every thread and in every process.

namespace laconic::nets {

/// Selects the draws of dropout. A row of the batch is a pure function of (seed, epoch, its sample), the layer and the
/// entry; it does not depend on the worker or on the batch.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::vector<std::uint32_t> samples{};  ///< of the rows, below 2^24; empty: 0, 1, 2, …
};

/// Settings that the layers of one network read while it runs.
class Conditions {
 public:
  /// Where masks of dropout are drawn: the network's device, on torch's current stream there. One CPU thread at first.
  void compute_on(std::shared_ptr<Place> place) { place_ = std::move(place); }
  void set_draws(DrawKey key);

  Place& place() const { return *place_; }
  const DrawKey& draws() const { return draws_; }
  /// The draws' samples on the place's device, for a batch of this many rows.
  torch::Tensor samples(std::int64_t rows) const;

  double norm_momentum = 0.1;  ///< weight of the newest batch in batch norm's running statistics, as in PyTorch

 private:
  std::shared_ptr<Place> place_ = std::make_shared<Place>(CpuOptions{.threads = 1});
  DrawKey draws_{};
  torch::Tensor samples_{};  ///< undefined if the key names none
};

/// If torchvision has the model, parameters and buffers have its names, so that Python can load them.
class Network : public torch::nn::Module {
 public:
  /// Logits, [batch, classes]; of characters [batch·length, classes], for the character behind each of the input's.
  virtual torch::Tensor forward(const torch::Tensor& input) = 0;

  /// Sets the draws of the next forward passes in training mode. Two passes with the same key drop the same entries.
  void set_draws(DrawKey key) { conditions_->set_draws(std::move(key)); }
  /// Before the first forward pass on a place that is not a CPU's, and before set_draws.
  void compute_on(std::shared_ptr<Place> place) { conditions_->compute_on(std::move(place)); }
  /// 1, 1/2, 1/3, … for consecutive batches gives the plain mean of their statistics.
  void set_norm_momentum(double momentum) { conditions_->norm_momentum = momentum; }

 protected:
  explicit Network(std::shared_ptr<Conditions> conditions) : conditions_(std::move(conditions)) {}

 private:
  std::shared_ptr<Conditions> conditions_;
};

enum class Pooling : std::uint8_t { mean, last };

/// What may differ between networks of one name.
struct ModelOptions {
  std::optional<double> dropout{};  ///< in [0, 1); default: the model's own (wrn28-10: 0, bilstm: 0.5, gpt: 0.2)
  Pooling pooling = Pooling::mean;  ///< of bilstm
};

class Builder;

struct ModelRow {
  const char* name;
  const char* summary;
  InputKind takes;
  bool has_dropout;
  int smallest_side;  ///< of an image
  int context;        ///< most characters that it reads at once, if it takes characters
  std::shared_ptr<Network> (*make)(Builder& builder, const InputShape& input, int classes, const ModelOptions& options);
};

std::span<const ModelRow> model_table();

/// The row of that name. Otherwise throws an InvalidConfig that lists all names.
const ModelRow& model_row(std::string_view name);

/// Makes a network in training mode. Throws InvalidConfig if the model does not accept this input or lacks an option.
std::shared_ptr<Network> make_network(std::string_view name, const InputShape& input, int classes, std::uint64_t seed,
                                      const ModelOptions& options = {});

/// The number of entries of all parameters, without buffers.
std::uint64_t parameter_count(const torch::nn::Module& network);

}  // namespace laconic::nets
