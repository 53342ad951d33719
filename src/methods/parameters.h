#pragma once

#include "methods/settings.h"

// Parameters that several methods share; the table names those that a method has.

namespace laconic::parameters {

Parameter number(const char* name, MethodOptions::Number MethodOptions::*member, Interval interval,
                 std::string fallback, const char* help);
Parameter above(const char* name, MethodOptions::Number MethodOptions::*member, double low, double high,
                std::string fallback, const char* help);
Parameter whole(const char* name, MethodOptions::Number MethodOptions::*member, double low, double high,
                std::string fallback, const char* help);
Parameter word(const char* name, MethodOptions::Word MethodOptions::*member, std::vector<std::string> choices,
               const char* help);

Parameter keep();
Parameter ratio();
Parameter scope(const char* fallback);
Parameter values();
Parameter order();
Parameter sparse_route();
Parameter sparse_scope(const char* fallback);
Parameter sparse_chunk(const char* scope_fallback);
Parameter sparse_values(const char* fallback);
Parameter sparse_return();
Parameter sparse_return_or_union();  ///< of a method that has `union` too
/// For methods that send everything as it is unless they are told otherwise: keep and values, and what counts only if
/// lists of entries are sent. `order` counts only if nothing is compressed.
std::vector<Parameter> compression();
std::vector<Parameter> leader_compression();  ///< the same if only one rank sends: its list takes one way
Parameter uncompressed_order();
bool compresses(const MethodOptions& options);
Parameter bits(const char* fallback);
Parameter norm();
Parameter max_norm();  ///< the same, with max as its default
/// For the quantizers: what shares a norm, how many entries of the flat view that is with scope = chunk, how an entry
/// is rounded, and whether the worker keeps what rounding left out.
Parameter quantized_scope(const char* fallback);
Parameter quantized_chunk(const char* scope_fallback);
Parameter rounding();
Parameter memory();
Parameter ties();
Parameter abstain();
Parameter quantized_route();
Parameter quantized_return();
Parameter period(const char* fallback);
Parameter pace();
Parameter lambda(const char* fallback = "0.3");
Parameter decay(const char* fallback);
Parameter outer_rate(const char* fallback);
Parameter outer_momentum(const char* fallback);
Parameter read(const char* fallback);
Parameter momentum();
Parameter weight_decay();
Parameter local_steps();
Parameter diagnose();
Parameter pull(const char* fallback, const char* help = "how far a round moves a worker towards the centre");
Parameter proximity();
Parameter round_steps();

}  // namespace laconic::parameters
