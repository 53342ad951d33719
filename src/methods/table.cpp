#include "methods/table.h"

#include <algorithm>
#include <numeric>

#include "laconic/error.h"
#include "laconic/version.h"
#include "methods/lift.h"
#include "methods/makers.h"
#include "methods/parameters.h"
#include "transport/agreement.h"

namespace laconic {
namespace {

using namespace parameters;  // NOLINT: the rows below read like a table only without prefixes
using Options = MethodOptions;

// clang-format off
const std::vector<MethodRow>& rows() {
  static const std::vector<MethodRow> table{
      {"sgd", Face::gradient, "dense all-reduce, mean", "baseline", 0, {order()}, make_sgd},
      {"adam", Face::gradient, "sgd's mean, lifted with Adam", "Kingma, Ba 2015", 0, {order()}, make_sgd},
      {"fp16", Face::gradient, "dense, 16-bit IEEE values both ways", "baseline", 0, {}, make_half},
      {"bf16", Face::gradient, "dense, bfloat16 values both ways", "baseline", 0, {}, make_half},
      {"topk", Face::gradient, "the k largest by magnitude, error feedback", "Stich et al. 2018", 8,
       {keep(), scope("model"), values(), sparse_route(),
        word("union", &Options::union_, {"sum", "keep"}, "keep: owners return their k/W largest sums, traffic stays flat in W")},
       make_topk},
      {"regtopk", Face::gradient, "top-k of a score that damps what the others cancelled", "Bereyhi et al. 2025", 8,
       {keep(), scope("model"), values(), sparse_route(),
        above("mu", &Options::mu, 0.0, 1e6, "4", "strength of the regularizer; towards 0 it is top-k"),
        word("denominator", &Options::denominator, {"previous", "current"}, "what the distortion is divided by"),
        word("step_guard", &Options::step_guard, {"off", "on"}, "undoes a step far longer than the last; lifted form only")},
       make_regtopk},
  };
  return table;
}
// clang-format on

std::uint64_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::uint64_t> row(right.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  for (std::size_t i = 0; i < left.size(); ++i) {
    std::uint64_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < right.size(); ++j) {
      const std::uint64_t replaced = diagonal + (left[i] == right[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// Ranks that differ find out here, not in a step that hangs or a result that is wrong.
void require_same(Communicator& communicator, const Settings& settings) {
  std::vector<AgreedField> fields{{"wire version", std::to_string(kWireVersion)}, {"method", settings.method()}};
  for (const auto& [name, value] : settings.texts()) fields.push_back({name, value});
  require_agreement(communicator, fields);
}

}  // namespace

std::span<const MethodRow> method_table() { return rows(); }

std::string nearest_name(std::string_view name, std::span<const std::string> names) {
  return *std::min_element(names.begin(), names.end(), [&](const std::string& left, const std::string& right) {
    return edit_distance(name, left) < edit_distance(name, right);
  });
}

const MethodRow& method_row(std::string_view name) {
  std::vector<std::string> names;
  for (const MethodRow& row : method_table()) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  throw InvalidConfig("there is no method " + std::string(name) + "; did you mean " + nearest_name(name, names) +
                      "? `laconic methods` lists them");
}

std::unique_ptr<GradientMethod> make_method(std::string_view name, const MethodOptions& options,
                                            Communicator& communicator, Place& place) {
  const MethodRow& row = method_row(name);
  if (row.face != Face::gradient) {
    throw InvalidConfig(std::string(name) + " is a model method and has no reduce(): use make_model_method");
  }
  const Settings settings(row.name, row.parameters, options);
  if (settings.has("step_guard") && settings.is("step_guard", "on")) {
    throw InvalidConfig(std::string(name) + ": step_guard needs the model: use make_model_method, or leave it off");
  }
  require_same(communicator, settings);
  return row.make_gradient(settings, communicator, place);
}

std::unique_ptr<ModelMethod> make_model_method(std::string_view name, const MethodOptions& options,
                                               const OptimizerOptions& optimizer, Communicator& communicator,
                                               Place& place) {
  const MethodRow& row = method_row(name);
  const Settings settings(row.name, row.parameters, options);
  require_same(communicator, settings);
  if (row.face == Face::model) return row.make_model(settings, optimizer, communicator, place);
  OptimizerOptions chosen = optimizer;
  if (name == "adam") chosen.name = "adam";
  const bool guard = settings.has("step_guard") && settings.is("step_guard", "on");
  return std::make_unique<LiftedMethod>(row.make_gradient(settings, communicator, place), chosen, guard, communicator,
                                        place);
}

}  // namespace laconic
