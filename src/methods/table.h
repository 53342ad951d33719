#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "methods/settings.h"

namespace laconic {

enum class Face : std::uint8_t { gradient, model };

using GradientMaker = std::unique_ptr<GradientMethod> (*)(const Settings&, Communicator&, Place&);
using ModelMaker = std::unique_ptr<ModelMethod> (*)(const Settings&, const OptimizerOptions&, Communicator&, Place&);

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
  double memory_bytes;  ///< a parameter, on each rank, without the optimizer's; the most that its settings make it
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
