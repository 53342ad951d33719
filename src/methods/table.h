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
  constexpr MemoryBytes(double always) : usual(always), most(always) {}  // NOLINT: a row of the table may give one number
  constexpr MemoryBytes(double as_a_rule, double at_most, const char* what_changes_it)
      : usual(as_a_rule), most(at_most), remark(what_changes_it) {}
  double usual;             ///< with the default settings, and SGD with momentum
  double most;              ///< with any settings and optimizer
  const char* remark = "";  ///< which settings make it more or less; empty if none does
};

/// Settings to begin with. A rate of 0 means that of the problem or task, with the task's optimizer. A method whose
/// steps do not shrink with the gradients has its own rate, and so has one that is named after its optimizer.
struct UsualSettings {
  double problem_rate = 0.0;  ///< learning rate on a problem of the table
  double network_rate = 0.0;  ///< learning rate on a network
  double momentum = 0.9;      ///< of SGD on a network
};

/// What start() compares between ranks when a run goes on, after load or resize. With every method a new run starts at
/// one point, which all ranks compare.
enum class Common : std::uint8_t {
  model,   ///< the model: it is the same on all ranks after every step
  point,   ///< the method's point without errors; a rank's model also has the rank's own error in it
  centre,  ///< the centre and the count of rounds; between rounds every rank has its own model
  start,   ///< nothing but the start of a new run: every rank has its own model, and there is no centre
};

/// The optimizers with which a method learns as the uncompressed one does (docs/updates.md says why).
enum class Suits : std::uint8_t {
  any,   ///< SGD, AdamW and others
  sgd,   ///< SGD: compressed gradients make the second moments of Adam-like optimizers wrong
  vote,  ///< SGD without momentum: a vote is an optimizer itself, and one like Adam after it learns little
};

/// What other code needs to know of a method before it is made. Everything that depends on the method is here: no file
/// outside the table compares a method's name.
struct Traits {
  /// The worker keeps what it did not send and adds it to a later step, so nothing that it sent may be lost. With the
  /// default settings: MethodRow::keeps_residual knows the others.
  bool keeps_residual = false;
  /// With optimizer sgd the method is SGD with momentum itself: it takes momentum and weight decay per tensor.
  bool is_sgd = false;
  /// Workers make local steps on their own models and meet every `period` steps, by default more than one.
  bool meets_in_rounds = false;
  /// Each worker's own optimizer steps, and the steps travel (methods/updates.cpp). With a host's optimizer the method
  /// takes StepInput::shrink.
  bool sends_updates = false;
  /// A method of rounds in which every local step, not only a round, pulls the model to the centre.
  bool pulls_every_step = false;
  /// Takes a function that scores models by gradients on a batch that all workers share.
  bool takes_scoring = false;
  /// What ranks have in common between steps.
  Common common = Common::model;
  /// Every step needs the loss of the worker's batch.
  bool needs_loss = false;
  /// The only optimizer with which it is lifted; its gradients are those of kDenseMethod. Empty: any optimizer.
  const char* optimizer = "";
  Suits suits = Suits::any;  ///< with the default settings: MethodRow::suits knows the others
  /// By default, a host that compresses by tensor sends tensors smaller than this dense, as in the paper.
  std::uint64_t least_tensor_size = 0;
  UsualSettings usual{};
};

/// One method: everything that the program, the tests and the plug-in know of it in advance.
struct MethodRow {
  const char* name;
  Face face;
  const char* summary;
  const char* paper;
  MemoryBytes memory_bytes;
  /// Bytes per parameter that a rank needs on a CUDA device, with default settings and 8 ranks, of whose supports the
  /// union is three times one support: also messages and scratch, but not the gradient, the model and the optimizer's
  /// own memory.
  double device_bytes;
  Traits traits;
  std::vector<Parameter> parameters;
  GradientMaker* make_gradient = nullptr;
  ModelMaker* make_model = nullptr;  ///< model methods; null for gradient methods, which are lifted
  const char* extra = "";           ///< what StepReport::extra means

  /// Whether the ranks' optimizers must always make the same step: ranks that step on their own model may differ.
  bool steps_alike() const { return traits.common == Common::model || traits.common == Common::point; }
  bool fixes_optimizer() const { return *traits.optimizer != '\0'; }
  /// Whether the method has a residual with these options.
  bool keeps_residual(const MethodOptions& options) const;
  /// The optimizers that the method suits with these options.
  Suits suits(const MethodOptions& options) const;
  /// Null if the method has no parameter of that name.
  const Parameter* find_parameter(std::string_view parameter) const;
  bool has_parameter(std::string_view parameter) const { return find_parameter(parameter) != nullptr; }
};

/// The method that sends everything uncompressed. Hosts use it for tensors and steps that they do not compress.
inline constexpr const char* kDenseMethod = "sgd";

/// "any", "sgd" or "vote", and what that means in a sentence.
const char* suits_name(Suits suits);
const char* suits_text(Suits suits);

/// The one table of methods.
std::span<const MethodRow> method_table();

/// The row of that name. Otherwise throws an InvalidConfig that suggests the nearest name or lists all names.
const MethodRow& method_row(std::string_view name);

/// Throws InvalidConfig for a method that does not work on two levels (laconic/two_levels.h), if `two`.
void require_levels(const MethodRow& row, bool two);

/// The optimizer with which a method of the table is lifted: the one given, unless the row fixes one and the host does
/// not bring its own.
OptimizerOptions optimizer_of(const MethodRow& row, OptimizerOptions given);

}  // namespace laconic
