#include "methods/table.h"

#include <algorithm>

#include "base/refusal.h"
#include "base/suggestion.h"
#include "laconic/error.h"
#include "laconic/version.h"
#include "methods/lift.h"
#include "methods/makers.h"
#include "methods/optimizer.h"
#include "methods/parameters.h"
#include "methods/two_levels.h"
#include "transport/agreement.h"

namespace laconic {
namespace {

using namespace parameters;  // NOLINT: the rows below read like a table only without prefixes
using Options = MethodOptions;

/// `first`, and then the others.
std::vector<Parameter> with(std::vector<Parameter> first, std::vector<Parameter> others) {
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

std::vector<Parameter> grawa_parameters() {
  return with({period("16"), pull("0.5"), proximity(),
               number("smoothing", &Options::smoothing, {0.0, 0.9999}, "0.43046721",
                      "smooths scores over rounds; 0: none"),
               word("score", &Options::score, {"shared", "local"},
                    "shared: gradient norms on a batch that all workers share; local: mean over the local steps"),
               pace(), round_steps()},
              compression());
}

bool is_convex(const Options& options) { return options.rule == "convex"; }

std::vector<Parameter> dqsgd_parameters() {
  const auto rule_or_error = [](const Options& options) { return is_convex(options) || options.error_budget; };
  const auto rule_or_bits = [](const Options& options) { return is_convex(options) || options.bit_budget; };
  const auto averages = [](const Options& options) { return options.norm_source != "exact" || options.bit_budget; };
  return {word("rule", &Options::rule, {"nonconvex", "convex"}, "which error bound chooses the bits"),
          above("tau", &Options::tau, 0.0, 1e12, "", "factor of the non-convex rule, 6 if no other option sets it"),
          above("kappa", &Options::kappa, 0.0, 1e30, "", "factor of the strongly convex rule"),
          above("error_budget", &Options::error_budget, 0.0, 1e30, "",
                "error that quantization may add; needs smoothness and step_size"),
          number("bit_budget", &Options::bit_budget, {2.0, 16.0}, "", "bits per coordinate, on average over the run"),
          above("smoothness", &Options::smoothness, 0.0, 1e30, "", "L of the problem")
              .only("rule = convex or error_budget", rule_or_error),
          above("convexity", &Options::convexity, 0.0, 1e30, "", "mu of the problem")
              .only("rule = convex", is_convex),
          above("step_size", &Options::step_size, 0.0, 1e6, "", "learning rate that the rule assumes")
              .only("rule = convex or error_budget", rule_or_error),
          whole("total_steps", &Options::total_steps, 1, 1e12, "", "steps of the run")
              .only("rule = convex or bit_budget", rule_or_bits),
          word("norm_source", &Options::norm_source, {"workers", "aggregate", "exact"}, "which norm the rule uses"),
          whole("window", &Options::window, 1, 1e6, "50", "steps over which the norm is averaged")
              .only("norm_source = workers or aggregate, or bit_budget", averages),
          norm(),
          quantized_scope("tensor"),
          quantized_chunk("tensor"),
          rounding(),
          memory(),
          quantized_route(),
          quantized_return()};
}

/// Today's usual way to send few bits with any optimizer: a norm for every few entries, and nothing is lost.
std::vector<Parameter> block_quant_parameters() {
  return {bits("4"),
          max_norm(),
          quantized_scope("chunk"),
          quantized_chunk("chunk"),
          rounding().with("nearest"),
          memory().with("error"),
          quantized_route().with("scatter"),
          quantized_return().with("requantized")};
}

Parameter turns() {
  return whole("turns", &Options::turns, 1, 1024, "1",
               "N: in each step one entry in N votes, and all have voted after N steps; N times fewer bits");
}

Parameter early_sign() {
  return whole("early_sign", &Options::early_sign, 0, 1e9, "0",
               "first steps that vote with the gradient's own sign; the paper's theory uses 54 for beta 0.9")
      .only("beta above 0", [](const Options& options) { return options.beta != 0.0; });
}

/// A vote moves every entry by the whole learning rate, and its momentum is the worker's.
constexpr Traits kVote{.suits = Suits::vote, .usual = {.problem_rate = 0.01, .network_rate = 5e-4, .momentum = 0.0}};
constexpr Traits kErrorFeedback{.keeps_residual = true, .suits = Suits::sgd};
constexpr Traits kBlockUpdates{.keeps_residual = true, .is_sgd = true, .sends_updates = true, .common = Common::point};
constexpr Traits kSparseUpdates{.keeps_residual = true, .sends_updates = true, .common = Common::point};
constexpr Traits kSparseRounds{
    .keeps_residual = true, .meets_in_rounds = true, .sends_updates = true, .common = Common::point};
constexpr Traits kDenseRounds{.meets_in_rounds = true, .sends_updates = true, .common = Common::point};
constexpr Traits kRounds{.meets_in_rounds = true, .common = Common::centre};
constexpr Traits kGrawa{
    .meets_in_rounds = true, .pulls_every_step = true, .takes_scoring = true, .common = Common::centre};

constexpr const char* kWithAdam = "most with Adam; 4 B less without momentum";
constexpr const char* kWithAdamOrCompressed =
    "most with Adam, and with values other than f32 or keep below 1; 4 B less without momentum";
constexpr const char* kWithLocalSteps = "most with Adam and local_steps above 1; 4 B less without momentum";
constexpr const char* kWithOuterMomentum =
    "most with Adam, outer_momentum, and lambda with a period above 1; 4 B less without momentum";

std::vector<Parameter> block_parameters() { return {ratio(), scope("tensor"), values(), order()}; }

std::vector<Parameter> sparse_parameters(const char* kept, const char* scope, const char* values) {
  return {keep().with(kept), sparse_scope(scope), sparse_chunk(scope),
          sparse_values(values), sparse_route(), sparse_return()};
}

/// The residual, twice.
constexpr MemoryBytes kWithMemory{0, 8, "most with memory = error"};
constexpr MemoryBytes kOfRounds{8, 16, "most with values other than f32, or keep below 1"};

// clang-format off
const std::vector<MethodRow>& rows() {
  static const std::vector<MethodRow> table{
      {"sgd", Face::gradient, "dense all-reduce, mean", "baseline", 0, 12, {.usual = {.network_rate = 0.05}}, {order()}, make_sgd},
      {"adam", Face::gradient, "sgd's mean, lifted with Adam", "Kingma, Ba 2015", 0, 12,
       {.optimizer = "adam", .usual = {.network_rate = 1e-3, .momentum = 0.0}}, {order()}, make_sgd},
      {"fp16", Face::gradient, "dense, 16-bit IEEE values both ways", "baseline", 0, 6, {}, {}, make_fp16},
      {"bf16", Face::gradient, "dense, bfloat16 values both ways", "baseline", 0, 6, {}, {}, make_bf16},
      {"topk", Face::gradient, "the k largest by magnitude, error feedback", "Stich et al. 2018", 8, 8.9, kErrorFeedback,
       {keep(), sparse_scope("model"), sparse_chunk("model"), sparse_values("f32"), sparse_route(), sparse_return_or_union(),
        word("union", &Options::union_, {"sum", "keep"}, "keep: the same as return = coded")},
       make_topk},
      {"regtopk", Face::gradient, "top-k of a score that damps entries which other workers cancelled", "Bereyhi et al. 2025", {8, 20, "most with step_guard"}, 9.8, kErrorFeedback,
       {keep(), sparse_scope("model"), sparse_chunk("model"), sparse_values("f32"), sparse_route(), sparse_return(),
        above("mu", &Options::mu, 0.0, 1e6, "4", "strength of the regularizer; near 0 it is top-k"),
        word("denominator", &Options::denominator, {"previous", "current"}, "step whose value divides the distortion"),
        word("step_guard", &Options::step_guard, {"off", "on"}, "undoes a step that is far longer than the last; only as a model method")},
       make_regtopk},
      {"randk", Face::gradient, "k random entries, the same on all workers, error feedback", "Stich et al. 2018", 8, 8.7, kErrorFeedback,
       {keep(), scope("model"), values()}, make_randk},
      {"ef-rbgs", Face::model, "one random block per tensor, error feedback in parameter units", "Xu, Huang 2022", {16, 20, kWithAdam}, 16.4, kBlockUpdates,
       with(block_parameters(), {read("point"), momentum(), weight_decay()}), nullptr, make_def},
      {"def", Face::model, "gradients detached from the error; reads out x minus the mean error", "Xu, Huang 2022", {16, 24, kWithLocalSteps}, 16.4, kBlockUpdates,
       with(block_parameters(), {lambda(), read("mean"), momentum(), weight_decay(), local_steps(), diagnose()}),
       nullptr, make_def, "best lambda of the step, with diagnose"},
      {"def-a", Face::model, "def's steps; reads out x", "Xu, Huang 2022", {16, 24, kWithLocalSteps}, 16.4, kBlockUpdates,
       with(block_parameters(), {lambda(), read("point"), momentum(), weight_decay(), local_steps(), diagnose()}),
       nullptr, make_def, "best lambda of the step, with diagnose"},
      {"def-topk", Face::model, "the k largest of each worker's own optimizer step, gradients detached from the error", "Xu, Huang 2022; Stich et al. 2018", {17, 29, kWithOuterMomentum}, 22, kSparseUpdates,
       with(sparse_parameters("0.02", "model", "sign"), {lambda("0.5"), period("1"), decay("1"), outer_rate("1"), outer_momentum("0"), read("mean"), diagnose()}),
       nullptr, make_largest_updates, "best lambda of the step, with diagnose"},
      {"diloco", Face::model, "rounds: the mean of the workers' moves, with an outer momentum", "Douillard et al. 2023", {16, 24, kWithAdamOrCompressed}, 28, kDenseRounds,
       with({period("32"), outer_rate("0.7"), outer_momentum("0.9"), read("point"), uncompressed_order()}, compression()), nullptr, make_dense_updates},
      {"sparseloco", Face::model, "rounds: the largest entries of the workers' moves; the rest decays", "Sarfi et al. 2025", {17, 29, kWithOuterMomentum}, 17.1, kSparseRounds,
       with(sparse_parameters("0.015625", "chunk", "two"), {lambda("0"), period("30"), decay("0.95"), outer_rate("1"), outer_momentum("0"), read("point"), diagnose()}),
       nullptr, make_largest_updates, "best lambda of the step, with diagnose"},
      {"psync", Face::model, "local step on each worker, then one random block of the models averaged", "Xie et al. 2020", {8, 12, "most with Adam"}, 8.2, {.common = Common::start},
       {ratio(), scope("tensor"), order()}, nullptr, make_psync},
      {"signsgd", Face::gradient, "majority vote on signs, one bit both ways", "Bernstein et al. 2018, 2019", 0, 0.4, kVote,
       {ties(), abstain()}, make_sign},
      {"signum", Face::gradient, "majority vote on the signs of the workers' momenta", "Bernstein et al. 2018, 2019", 8, 8.4, kVote,
       {number("beta", &Options::beta, {0.0, 0.999999}, "0.9", "the worker's momentum"), ties(), abstain(), turns(),
        early_sign()},
       make_sign},
      {"qsgd", Face::gradient, "stochastic quantization to a fixed number of bits", "Alistarh et al. 2017", kWithMemory, 4.5, {.suits = Suits::sgd, .least_tensor_size = 10000},
       {bits("4"), norm(), quantized_scope("tensor"), quantized_chunk("tensor"), rounding(), memory(), quantized_route(), quantized_return()}, make_quantized},
      {"terngrad", Face::gradient, "levels -1, 0, 1 of the largest magnitude", "Wen et al. 2017", kWithMemory, 2.25, {.suits = Suits::sgd},
       {quantized_scope("tensor"), quantized_chunk("tensor"), rounding(), memory(), quantized_route(), quantized_return()}, make_quantized},
      {"dqsgd", Face::gradient, "quantization whose bits follow the gradient's norm", "Yan et al. 2021", kWithMemory, 18, {.suits = Suits::sgd},
       dqsgd_parameters(),
       make_dqsgd, nullptr, "norm that chose the bits"},
      {"block-quant", Face::gradient, "few bits with a norm per 256 entries, error feedback; suits any optimizer", "Dettmers et al. 2022; Stich et al. 2018", {8, 8, "0 B with memory = none"}, 10.6, {.keeps_residual = true},
       block_quant_parameters(), make_quantized},
      {"mgrawa", Face::model, "rounds: models averaged with weights 1/gradient norm", "Dimlioglu, Choromanska 2024", kOfRounds, 20, kGrawa,
       grawa_parameters(), nullptr, make_mgrawa, "this worker's weight in the round"},
      {"lgrawa", Face::model, "rounds: mgrawa's weights, layer by layer", "Dimlioglu, Choromanska 2024", kOfRounds, 20, kGrawa,
       grawa_parameters(), nullptr, make_lgrawa, "this worker's weight in the round, mean over layers"},
      {"easgd", Face::model, "rounds: workers and a centre pull towards each other", "Zhang et al. 2015", kOfRounds, 20, kRounds,
       with({period("8"), pull("0.43", "how far a round moves the centre towards the workers' mean; a worker moves pull/W of the way to the centre"),
             pace(), round_steps()}, compression()), nullptr, make_easgd},
      {"lsgd", Face::model, "rounds: pulled to the worker with the lowest loss", "Teng et al. 2019", kOfRounds, 12,
       {.meets_in_rounds = true, .pulls_every_step = true, .common = Common::centre, .needs_loss = true},
       with({period("8"), pull("0.1"), proximity(), pace(), round_steps()}, leader_compression()), nullptr, make_lsgd, "the leader's rank"},
      {"localsgd", Face::model, "rounds: plain averaging of models", "baseline", kOfRounds, 20, kRounds,
       with({period("8"), pace(), round_steps()}, compression()), nullptr, make_localsgd},
  };
  return table;
}
// clang-format on

/// Ranks that differ find out here, not in a step that hangs or a result that is wrong.
void require_same(Communicator& communicator, const Settings& settings, std::vector<AgreedField> others = {}) {
  std::vector<AgreedField> fields{{"wire version", std::to_string(kWireVersion)}, {"method", settings.method()}};
  for (const auto& [name, value] : settings.texts()) fields.push_back({name, value});
  fields.insert(fields.end(), others.begin(), others.end());
  require_agreement(communicator, fields);
}

std::vector<AgreedField> fields_of(const OptimizerOptions& optimizer) {
  return {{"optimizer", optimizer.name},
          {"optimizer's momentum", text_of(optimizer.momentum)},
          {"optimizer's nesterov", optimizer.nesterov ? "true" : "false"},
          {"optimizer's weight_decay", text_of(optimizer.weight_decay)},
          {"optimizer's weight_decay_on", optimizer.weight_decay_on},
          {"optimizer's beta1", text_of(optimizer.beta1)},
          {"optimizer's beta2", text_of(optimizer.beta2)},
          {"optimizer's epsilon", text_of(optimizer.epsilon)}};
}

/// What a saved state must agree with: the parameters that its memory depends on.
std::vector<SettingText> kept_settings(const MethodRow& row, const Settings& settings) {
  std::vector<SettingText> kept;
  for (const Parameter& parameter : row.parameters) {
    if (parameter.may_change || !settings.has(parameter.name)) continue;
    kept.emplace_back(parameter.name, settings.word(parameter.name));
  }
  return kept;
}

/// The same, and the settings of its optimizer that count. A host's optimizer keeps its own.
std::vector<SettingText> kept_settings(const MethodRow& row, const Settings& settings,
                                       const OptimizerOptions& optimizer) {
  std::vector<SettingText> kept = kept_settings(row, settings);
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!settings.has(name)) kept.emplace_back("optimizer's " + name, value);  // else the method's own counts
  };
  kept.emplace_back("optimizer", optimizer.name);
  const OptimizerKind kind = optimizer_kind(optimizer.name);
  if (kind == OptimizerKind::sgd) {
    add("momentum", text_of(optimizer.momentum));
    add("nesterov", optimizer.nesterov ? "true" : "false");
  }
  if (is_adam(kind)) {
    add("beta1", text_of(optimizer.beta1));
    add("beta2", text_of(optimizer.beta2));
    add("epsilon", text_of(optimizer.epsilon));
  }
  if (kind != OptimizerKind::host) {
    add("weight_decay", text_of(optimizer.weight_decay));
    if (optimizer.weight_decay_on != OptimizerOptions().weight_decay_on) {
      kept.emplace_back("optimizer's weight_decay_on", optimizer.weight_decay_on);
    }
  }
  return kept;
}

}  // namespace

const Parameter* MethodRow::find_parameter(std::string_view parameter) const {
  for (const Parameter& each : parameters) {
    if (each.name == parameter) return &each;
  }
  return nullptr;
}

/// A quantizer's rounding error follows the largest of the entries that share a norm: for Adam they must be few.
Suits MethodRow::suits(const MethodOptions& options) const {
  if (!has_parameter("rounding") || !options.scope) return traits.suits;
  return options.scope == "chunk" ? Suits::any : Suits::sgd;
}

bool MethodRow::keeps_residual(const MethodOptions& options) const {
  if (has_parameter("memory") && options.memory) return options.memory == "error";
  return traits.keeps_residual || (has_parameter("keep") && compresses(options));
}

const char* suits_name(Suits suits) { return suits == Suits::any ? "any" : suits == Suits::sgd ? "sgd" : "vote"; }

const char* suits_text(Suits suits) {
  switch (suits) {
    case Suits::sgd:
      return "SGD; Adam-like optimizers learn less from its gradients";
    case Suits::vote:
      return "SGD without momentum: a vote is an optimizer itself, and an Adam-like one after it learns little";
    case Suits::any:
      break;
  }
  return "any optimizer: SGD, Adam, AdamW and others";
}

std::span<const MethodRow> method_table() { return rows(); }

const MethodRow& method_row(std::string_view name) {
  return row_named(method_table(), name, "method", " (`laconic methods` says what they do)");
}

OptimizerOptions optimizer_of(const MethodRow& row, OptimizerOptions given) {
  if (row.fixes_optimizer() && optimizer_kind(given.name) != OptimizerKind::host) given.name = row.traits.optimizer;
  return given;
}

namespace {

/// The ranks of a method, on one level or on two.
struct MethodRanks {
  Communicator& all;
  TwoLevels* levels = nullptr;  ///< null: one level
};

std::unique_ptr<GradientBase> gradient_method(const MethodRow& row, const Settings& settings, const MethodRanks& ranks,
                                              Place& place) {
  if (ranks.levels == nullptr) return row.make_gradient(settings, ranks.all, place);
  return std::make_unique<TwoLevelMethod>(row.make_gradient(settings, ranks.levels->between(), place), *ranks.levels,
                                          place);
}

/// A state on two levels is one of slices, which depend on the hosts.
std::vector<SettingText> with_hosts(std::vector<SettingText> kept, const MethodRanks& ranks) {
  if (ranks.levels != nullptr) kept.emplace_back("hosts", ranks.levels->hosts());
  return kept;
}

std::unique_ptr<GradientMethod> make_gradient_method(std::string_view name, const MethodOptions& options,
                                                     const MethodRanks& ranks, Place& place) {
  const MethodRow& row = method_row(name);
  if (row.face != Face::gradient) {
    throw InvalidConfig(std::string(name) + " is a model method and has no reduce(): use make_model_method");
  }
  const Settings settings(row.name, row.parameters, options);
  if (settings.has("step_guard") && settings.is("step_guard", "on")) {
    throw Refusal({.who = std::string(name),
                   .rule = "step_guard needs the model",
                   .got = {},
                   .remedy = "use make_model_method, or leave it off"});
  }
  require_same(ranks.all, settings);
  auto method = gradient_method(row, settings, ranks, place);
  method->set_settings(with_hosts(kept_settings(row, settings), ranks));
  return method;
}

std::unique_ptr<ModelMethod> make_any_model_method(std::string_view name, const MethodOptions& options,
                                                   const OptimizerOptions& optimizer, const MethodRanks& ranks,
                                                   Place& place) {
  const MethodRow& row = method_row(name);
  require_levels(row, ranks.levels != nullptr);
  const Settings settings(row.name, row.parameters, options);
  require_same(ranks.all, settings, fields_of(optimizer));
  const OptimizerOptions own = optimizer_of(row, optimizer);
  std::unique_ptr<ModelBase> method;
  if (row.face == Face::model) {
    method = row.make_model(settings, own, ranks.all, place);
  } else {
    const bool guard = settings.has("step_guard") && settings.is("step_guard", "on");
    method = std::make_unique<LiftedMethod>(gradient_method(row, settings, ranks, place), own, guard, ranks.all, place);
  }
  method->set_settings(with_hosts(kept_settings(row, settings, own), ranks));
  return method;
}

}  // namespace

void require_levels(const MethodRow& row, bool two) {
  if (!two || row.face == Face::gradient) return;
  throw InvalidConfig(std::string(row.name) +
                      " is a model method, and two levels are for gradient methods: choose one of those (`laconic "
                      "methods` lists them), or use one level");
}

std::unique_ptr<GradientMethod> make_method(std::string_view name, const MethodOptions& options,
                                            Communicator& communicator, Place& place) {
  return make_gradient_method(name, options, {communicator}, place);
}

std::unique_ptr<GradientMethod> make_method(std::string_view name, const MethodOptions& options, TwoLevels& levels,
                                            Place& place) {
  require_levels(method_row(name), true);
  return make_gradient_method(name, options, {levels.all(), &levels}, place);
}

std::unique_ptr<ModelMethod> make_model_method(std::string_view name, const MethodOptions& options,
                                               const OptimizerOptions& optimizer, Communicator& communicator,
                                               Place& place) {
  return make_any_model_method(name, options, optimizer, {communicator}, place);
}

std::unique_ptr<ModelMethod> make_model_method(std::string_view name, const MethodOptions& options,
                                               const OptimizerOptions& optimizer, TwoLevels& levels, Place& place) {
  return make_any_model_method(name, options, optimizer, {levels.all(), &levels}, place);
}

}  // namespace laconic
