#include "methods/parameters.h"

namespace laconic::parameters {

Parameter number(const char* name, MethodOptions::Number MethodOptions::*member, double low, double high,
                 std::string fallback, const char* help) {
  return {.name = name, .help = help, .fallback = std::move(fallback), .number = member, .low = low, .high = high};
}

Parameter above(const char* name, MethodOptions::Number MethodOptions::*member, double low, double high,
                std::string fallback, const char* help) {
  Parameter parameter = number(name, member, low, high, std::move(fallback), help);
  parameter.low_open = true;
  return parameter;
}

Parameter whole(const char* name, MethodOptions::Number MethodOptions::*member, double low, double high,
                std::string fallback, const char* help) {
  Parameter parameter = number(name, member, low, high, std::move(fallback), help);
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
  return number("ratio", &MethodOptions::ratio, 1.0, 1e9, "64", "one entry in so many is sent, 64 for 1.6 %");
}
Parameter scope(const char* fallback) {
  return word("scope", &MethodOptions::scope, {"model", "tensor"}, "what a selection or a norm is taken over")
      .with(fallback);
}
Parameter values() {
  return word("values", &MethodOptions::values, {"f32", "f16", "bf16"}, "format of values on the wire");
}
Parameter order() {
  return word("order", &MethodOptions::order, {"rank_order", "engine"},
              "who sums: rank_order gives the same bits everywhere, engine is the engine's own all-reduce");
}
Parameter sparse_route() {
  return word("route", &MethodOptions::route, {"automatic", "gather", "range"}, "way of a sparse sum");
}
Parameter bits(const char* fallback) {
  return whole("bits", &MethodOptions::bits, 2, 16, fallback, "bits of a value, one of them the sign");
}
Parameter norm() {
  return word("norm", &MethodOptions::norm, {"l2", "max"}, "what values are scaled by; max has far less noise a bit");
}
Parameter ties() { return word("ties", &MethodOptions::ties, {"random", "plus"}, "how an even vote falls"); }
Parameter period(const char* fallback) {
  return whole("period", &MethodOptions::period, 1, 1e9, fallback, "local steps between two rounds");
}
Parameter pace() {
  return word("pace", &MethodOptions::pace, {"lockstep", "async"},
              "lockstep: every worker the same steps, the same bits; async: at the workers' own pace");
}

}  // namespace laconic::parameters
