#include "methods/parameters.h"

#include <string_view>

#include "base/layout.h"
#include "methods/optimizer.h"

namespace laconic::parameters {

namespace {

Parameter l2_or_max() {
  return word("norm", &MethodOptions::norm, {"l2", "max"}, "norm that scales values; max has far less noise per bit");
}

bool asks_for_chunks(const MethodOptions& options) { return options.scope == "chunk"; }
/// For a method whose default is scope = chunk.
bool leaves_chunks(const MethodOptions& options) { return !options.scope || asks_for_chunks(options); }

Parameter chunk(const char* entries, const char* help, std::string_view scope_fallback) {
  return whole("chunk", &MethodOptions::chunk, double{kLeastScope}, double{kMostScope}, entries, help)
      .only("scope = chunk", scope_fallback == "chunk" ? leaves_chunks : asks_for_chunks);
}

Parameter coded_or_exact() {
  return word("return", &MethodOptions::return_, {"exact", "coded"},
              "coded: owners return only their k/W largest sums, in the format of values, so traffic does not grow with W");
}

constexpr const char* kLists = "keep below 1, or values = sign or two";

/// Whether lists of entries are sent, by a method that sends everything by default.
bool sends_lists(const MethodOptions& options) {
  return options.keep.value_or(1.0) < 1.0 || options.values == "sign" || options.values == "two";
}

}  // namespace

Parameter number(const char* name, MethodOptions::Number MethodOptions::*member, Interval interval,
                 std::string fallback, const char* help) {
  return {.name = name, .help = help, .fallback = std::move(fallback), .number = member, .interval = interval};
}

Parameter above(const char* name, MethodOptions::Number MethodOptions::*member, double low, double high,
                std::string fallback, const char* help) {
  return number(name, member, {low, high, "(]"}, std::move(fallback), help);
}

Parameter whole(const char* name, MethodOptions::Number MethodOptions::*member, double low, double high,
                std::string fallback, const char* help) {
  Parameter parameter = number(name, member, {low, high}, std::move(fallback), help);
  parameter.whole = true;
  return parameter;
}

Parameter word(const char* name, MethodOptions::Word MethodOptions::*member, std::vector<std::string> choices,
               const char* help) {
  std::string first = choices.front();
  return {.name = name, .help = help, .fallback = std::move(first), .word = member, .choices = std::move(choices)};
}

Parameter keep() {
  return above("keep", &MethodOptions::keep, 0.0, 1.0, "0.01", "share of the entries that is sent, 0.01 for 1 %");
}
Parameter ratio() {
  return number("ratio", &MethodOptions::ratio, {1.0, 1e9}, "64", "one entry in this many is sent, 64 for 1.6 %");
}
Parameter scope(const char* fallback) {
  return word("scope", &MethodOptions::scope, {"model", "tensor"}, "what one selection or one norm covers")
      .with(fallback);
}
Parameter values() {
  return word("values", &MethodOptions::values, {"f32", "f16", "bf16"}, "format of values on the wire");
}
Parameter order() {
  return word("order", &MethodOptions::order, {"rank_order", "engine"},
              "order of sums: rank_order gives the same bits everywhere, engine uses the engine's own all-reduce")
      .changeable();
}
Parameter sparse_route() {
  return word("route", &MethodOptions::route, {"automatic", "gather", "range"}, "how a sparse sum runs").changeable();
}
Parameter sparse_scope(const char* fallback) {
  return word("scope", &MethodOptions::scope, {"model", "tensor", "chunk"},
              "what one selection covers; chunk: every `chunk` entries of the model")
      .with(fallback);
}
Parameter sparse_chunk(const char* scope_fallback) {
  return chunk("4096", "entries of a scope", scope_fallback);
}
Parameter sparse_values(const char* fallback) {
  return word("values", &MethodOptions::values, {"f32", "f16", "bf16", "sign", "two"},
              "format of values on the wire; sign and two: one or two magnitudes per scope")
      .with(fallback);
}
Parameter sparse_return() { return coded_or_exact(); }
Parameter sparse_return_or_union() {
  return coded_or_exact().only(
      "union = sum", [](const MethodOptions& options) { return options.union_ != "keep" || options.return_ == "coded"; });
}
bool compresses(const MethodOptions& options) {
  return options.keep.value_or(1.0) < 1.0 || options.values.value_or("f32") != "f32";
}
std::vector<Parameter> leader_compression() {
  const auto lists_of_chunks = [](const MethodOptions& options) {
    return sends_lists(options) && asks_for_chunks(options);
  };
  Parameter entries = whole("chunk", &MethodOptions::chunk, double{kLeastScope}, double{kMostScope}, "4096",
                            "entries of a scope");
  return {keep().with("1"), sparse_values("f32"), sparse_scope("model").only(kLists, sends_lists),
          entries.only("scope = chunk", lists_of_chunks)};
}
std::vector<Parameter> compression() {
  std::vector<Parameter> all = leader_compression();
  all.push_back(sparse_route().only(kLists, sends_lists));
  all.push_back(coded_or_exact().only(kLists, sends_lists));
  return all;
}
Parameter uncompressed_order() {
  return order().only("keep = 1 and values = f32", [](const MethodOptions& options) { return !compresses(options); });
}
Parameter bits(const char* fallback) {
  return whole("bits", &MethodOptions::bits, 2, 16, fallback, "bits per value, including one for the sign");
}
Parameter norm() { return l2_or_max().or_with("scope = chunk", "max", asks_for_chunks); }
Parameter max_norm() { return l2_or_max().with("max"); }
Parameter quantized_scope(const char* fallback) {
  return word("scope", &MethodOptions::scope, {"model", "tensor", "chunk"},
              "what one norm covers; chunk: runs of entries of the flat model, wherever tensors begin")
      .with(fallback);
}
Parameter quantized_chunk(const char* scope_fallback) {
  return chunk("256", "entries that share a norm, a power of two", scope_fallback);
}
Parameter rounding() {
  return word("rounding", &MethodOptions::rounding, {"stochastic", "nearest"},
              "stochastic: right on average; nearest: half the error, ties round away from zero, needs memory = error");
}
Parameter memory() {
  return word("memory", &MethodOptions::memory, {"none", "error"},
              "error: the worker keeps what rounding left out and adds it to its next gradient");
}
Parameter ties() { return word("ties", &MethodOptions::ties, {"random", "plus"}, "how a tied vote is decided"); }
Parameter abstain() {
  return number("abstain", &MethodOptions::abstain, {0.0, 100.0}, "0",
                "an entry below this share of the mean magnitude casts no vote (two bits per coordinate); 0: all vote");
}
Parameter quantized_route() {
  return word("route", &MethodOptions::route, {"gather", "scatter"}, "how a quantized sum runs").changeable();
}
Parameter quantized_return() {
  return word("return", &MethodOptions::return_, {"full", "requantized"},
              "with scatter: how sums are returned; requantized adds noise that no bound covers, and with "
              "memory = error the rank that summed an entry keeps its error");
}
Parameter period(const char* fallback) {
  return whole("period", &MethodOptions::period, 1, 1e9, fallback, "local steps between two rounds");
}
Parameter pace() {
  return word("pace", &MethodOptions::pace, {"lockstep", "async"},
              "lockstep: all make the same number of steps, reproducible bit for bit; async: each at its own pace")
      .changeable();
}
Parameter pull(const char* fallback, const char* help) {
  return number("pull", &MethodOptions::pull, {0.0, 1.0}, fallback, help);
}
Parameter proximity() {
  return number("proximity", &MethodOptions::proximity, {0.0, 1.0}, "0.01",
                "pull towards the last centre, spread over the local steps of a period");
}
Parameter round_steps() {
  return whole("total_steps", &MethodOptions::total_steps, 0, 1e12, "0",
               "steps per worker, on average, before the last round; 0: unlimited, allowed only with pace = lockstep")
      .changeable();
}
Parameter lambda(const char* fallback) {
  return number("lambda", &MethodOptions::lambda, {0.0, 1.0}, fallback,
                "how far gradients are detached from the error; 0 is plain error feedback, 0.2 to 0.6 works well");
}
Parameter decay(const char* fallback) {
  return above("decay", &MethodOptions::decay, 0.0, 1.0, fallback,
               "factor of what stays unsent after a meeting; 1 forgets nothing");
}
Parameter outer_rate(const char* fallback) {
  return above("outer_rate", &MethodOptions::outer_rate, 0.0, 10.0, fallback,
               "factor of the mean update that moves the common point");
}
Parameter outer_momentum(const char* fallback) {
  return number("outer_momentum", &MethodOptions::outer_momentum, kMomentumRange, fallback,
                "Nesterov momentum of the common point");
}
Parameter read(const char* fallback) {
  return word("read", &MethodOptions::read, {"mean", "point"},
              "what is tested and saved: the common point less the mean of what is unsent, or the point itself")
      .with(fallback)
      .changeable();
}
Parameter momentum() {
  return number("momentum", &MethodOptions::momentum, kMomentumRange, "", "of each worker; default the optimizer's");
}
Parameter weight_decay() {
  return number("weight_decay", &MethodOptions::weight_decay, kWeightDecayRange, "",
                "applied where the gradient is taken; default the optimizer's");
}
Parameter local_steps() {
  return whole("local_steps", &MethodOptions::local_steps, 1, 1e9, "1", "steps per exchange");
}
Parameter diagnose() {
  return word("diagnose", &MethodOptions::diagnose, {"off", "on"},
              "on: report the best lambda of each step, which costs a dense average per step")
      .changeable();
}

}  // namespace laconic::parameters
