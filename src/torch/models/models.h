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

// The networks that the program trains; docs/models.md has their sizes and the choices made. Initial values are
// distributed as PyTorch's defaults but drawn from our own streams, and so is dropout: torch's generator is never
// asked, so a network is the same in every version of it, in every thread and in every process.

namespace laconic::nets {

/// Which draws dropout takes: a row of the batch is a pure function of (seed, epoch, its sample), the layer and the
/// entry, whoever computes it and in whichever batch.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::vector<std::uint32_t> samples{};  ///< of the rows, below 2^24; none: 0, 1, 2, …
};

/// What the layers of one network look up while it runs.
struct Conditions {
  DrawKey draws{};
  double norm_momentum = 0.1;  ///< what the newest batch weighs in batch norm's running statistics, as in PyTorch
};

/// Parameters and buffers have the names of torchvision's models where those exist, so that Python can load them.
class Network : public torch::nn::Module {
 public:
  /// Logits, [batch, classes].
  virtual torch::Tensor forward(const torch::Tensor& input) = 0;

  /// For the next forward passes in training mode; two with the same key drop the same entries.
  void set_draws(DrawKey key) { conditions_->draws = std::move(key); }
  /// 1, 1/2, 1/3, … for batch after batch gives the plain mean of their statistics.
  void set_norm_momentum(double momentum) { conditions_->norm_momentum = momentum; }

 protected:
  explicit Network(std::shared_ptr<Conditions> conditions) : conditions_(std::move(conditions)) {}

 private:
  std::shared_ptr<Conditions> conditions_;
};

enum class Pooling : std::uint8_t { mean, last };

/// What may differ between networks of one name.
struct ModelOptions {
  std::optional<double> dropout{};  ///< in [0, 1); without it the model's own (wrn28-10: 0, bilstm: 0.5)
  Pooling pooling = Pooling::mean;  ///< of bilstm
};

class Builder;

struct ModelRow {
  const char* name;
  const char* summary;
  bool takes_text;
  bool has_dropout;
  int smallest_side;  ///< of an image
  std::shared_ptr<Network> (*make)(Builder& builder, const InputShape& input, int classes, const ModelOptions& options);
};

std::span<const ModelRow> model_table();

/// InvalidConfig that lists the names.
const ModelRow& model_row(std::string_view name);

/// In training mode. InvalidConfig where the model does not take this input, or an option that it does not have.
std::shared_ptr<Network> make_network(std::string_view name, const InputShape& input, int classes, std::uint64_t seed,
                                      const ModelOptions& options = {});

/// Entries of all parameters; buffers do not count.
std::uint64_t parameter_count(const torch::nn::Module& network);

}  // namespace laconic::nets
