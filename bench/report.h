#pragma once

#include <string>
#include <vector>

#include "bench/exchanges.h"
#include "bench/harness.h"
#include "bench/methods.h"

namespace laconic::bench {

// Tables a line at a time, so that a long run shows what it has; a legend for under them; and JSON for machines.

/// With the size and the threads of the first result, which are those of all.
std::string kernel_header(const KernelResult& first);
std::string kernel_line(const KernelResult& result);
std::string kernel_legend();
std::string kernels_json(const std::vector<KernelResult>& results);

std::string exchange_header();
std::string exchange_line(const ExchangeResult& result);
std::string exchange_legend();
std::string exchanges_json(const std::vector<ExchangeResult>& results);

std::string method_header();
std::string method_line(const MethodResult& result);
std::string method_legend();
std::string methods_json(const std::vector<MethodResult>& results);

}  // namespace laconic::bench
