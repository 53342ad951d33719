#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "methods/settings.h"

namespace laconic {

class GradientBase;
class ModelBase;

enum class Face : std::uint8_t { gradient, model };

using GradientMaker = std::unique_ptr<GradientBase>(const Settings&, Communicator&, Place&);
using ModelMaker = std::unique_ptr<ModelBase>(const Settings&, const OptimizerOptions&, Communicator&, Place&);

/// Bytes per parameter of the model that a method keeps on each rank: without the optimizer's own memory, messages,
/// scratch, and what grows with the number of entries that are sent.
struct MemoryBytes {
  MemoryBytes(double always) : usual(always), most(always) {}  // NOLINT: a row of the table gives one number or two
  MemoryBytes(double as_a_rule, double at_most) : usual(as_a_rule), most(at_most) {}
  double usual;  ///< with the default settings, and SGD with momentum
  double most;   ///< with any settings and optimizer
};

/// Settings to begin with. A rate of 0 means SGD's; a method whose steps do not shrink with the gradients has its own.
struct UsualSettings {
  double problem_rate = 0.0;  ///< learning rate on a problem of the table
  double network_rate = 0.0;  ///< learning rate on a network
  double momentum = 0.9;      ///< of SGD on a network
};

/// What others need to know of a method before it is made. Everything that depends on which method it is stands here:
/// no file outside the table compares a method's name.
struct Traits {
  /// The worker keeps what it did not send and adds it to a later step, so nothing that it sent may be lost.
  bool keeps_residual = false;
  /// Is SGD with momentum itself: takes momentum and weight decay per tensor, and no other optimizer.
  bool is_sgd = false;
  /// Workers make local steps on models of their own and meet every `period` steps.
  bool meets_in_rounds = false;
  /// Of these: every local step also pulls the model to the centre, not only a round.
  bool pulls_every_step = false;
  /// Takes a function that scores models by gradients on a batch that all workers share.
  bool takes_scoring = false;
  /// Every step needs the loss of the worker's batch.
  bool needs_loss = false;
  /// The only optimizer that it is lifted with; its gradients are those of kDenseMethod. Empty: any optimizer.
  const char* optimizer = "";
  /// A host that compresses by tensor sends smaller ones dense, as the paper does, unless told otherwise.
  std::uint64_t least_tensor_size = 0;
  UsualSettings usual{};
};

/// One method: all that the program, the tests and the plug-in know of it beforehand.
struct MethodRow {
  const char* name;
  Face face;
  const char* summary;
  const char* paper;
  MemoryBytes memory_bytes;
  Traits traits;
  std::vector<Parameter> parameters;
  GradientMaker* make_gradient = nullptr;
  ModelMaker* make_model = nullptr;  ///< model methods; null for gradient methods, which are lifted
  const char* extra = "";           ///< what StepReport::extra means

  bool fixes_optimizer() const { return *traits.optimizer != '\0'; }
  /// Null if the method has no parameter of that name.
  const Parameter* find_parameter(std::string_view parameter) const;
  bool has_parameter(std::string_view parameter) const { return find_parameter(parameter) != nullptr; }
};

/// The method that sends everything as it is: what hosts use for tensors and steps that are not compressed.
inline constexpr const char* kDenseMethod = "sgd";

/// The one table of methods.
std::span<const MethodRow> method_table();

/// InvalidConfig with the nearest name, or the names that there are.
const MethodRow& method_row(std::string_view name);

/// The optimizer that a method of the table is lifted with: the one given, unless the row fixes one and the host does
/// not bring its own.
OptimizerOptions optimizer_of(const MethodRow& row, OptimizerOptions given);

}  // namespace laconic
