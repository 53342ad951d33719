#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "methods/gradient_base.h"
#include "methods/model_base.h"
#include "methods/settings.h"

namespace laconic {

enum class Face : std::uint8_t { gradient, model };

using GradientMaker = std::unique_ptr<GradientBase> (*)(const Settings&, Communicator&, Place&);
using ModelMaker = std::unique_ptr<ModelBase> (*)(const Settings&, const OptimizerOptions&, Communicator&, Place&);

/// Bytes per parameter of the model that a method keeps on each rank: without the optimizer's own memory, messages,
/// scratch, and what grows with the number of entries that are sent.
struct MemoryBytes {
  MemoryBytes(double always) : usual(always), most(always) {}  // NOLINT: a row of the table gives one number or two
  MemoryBytes(double as_a_rule, double at_most) : usual(as_a_rule), most(at_most) {}
  double usual;  ///< with the default settings, and SGD with momentum
  double most;   ///< with any settings and optimizer
};

/// Learning rates to begin with, for a method whose steps do not shrink with the gradients as SGD's do; 0: SGD's.
struct UsualRates {
  double problem = 0.0;  ///< on a problem of the table
  double network = 0.0;
};

/// One method: all that the program, the tests and the plug-in know of it beforehand.
struct MethodRow {
  const char* name;
  Face face;
  const char* summary;
  const char* paper;
  MemoryBytes memory_bytes;
  std::vector<Parameter> parameters;
  GradientMaker make_gradient = nullptr;
  ModelMaker make_model = nullptr;  ///< model methods; null for gradient methods, which are lifted
  const char* extra = "";           ///< what StepReport::extra means
  UsualRates rates{};
};

/// The one table of methods.
std::span<const MethodRow> method_table();

/// InvalidConfig with the nearest name, or the names that there are.
const MethodRow& method_row(std::string_view name);

}  // namespace laconic
