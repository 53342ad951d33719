#include "bench/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace laconic::bench {
namespace {

/// Keys in the order in which they are written here.
using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string milliseconds(double seconds) { return fmt::format("{:.2f}", seconds * 1e3); }

}  // namespace

std::string kernel_header(const KernelResult& first) {
  return fmt::format("{} values, {} MB a gradient; {} thread{}\n", first.n,
                     (first.n * sizeof(float) + 500'000) / 1'000'000, first.threads, first.threads == 1 ? "" : "s") +
         fmt::format("{:<19} {:<9} {:>9} {:>9} {:>6} {:>10} {:>8}  {}\n", "kernel", "level", "ms", "stream", "ratio",
                     "torch ms", "torch", "the stream");
}

std::string kernel_line(const KernelResult& result) {
  return fmt::format("{:<19} {:<9} {:>9} {:>9} {:>6.2f} {:>10} {:>8}  {}\n", result.kernel, result.implementation,
                     milliseconds(result.seconds), milliseconds(result.stream_seconds), result.ratio,
                     result.torch_seconds ? milliseconds(*result.torch_seconds) : "-",
                     result.torch_ratio ? fmt::format("{:.1f} x", *result.torch_ratio) : "-", result.stream);
}

std::string kernel_legend() {
  return "ratio: time against the stream, which moves the same bytes and does as little as it can with them, timed in\n"
         "       turns in the same run; medians; results were checked against the reference first.\n"
         "torch: how many times longer PyTorch's own operators take for the same job.\n";
}

std::string kernels_json(const std::vector<KernelResult>& results) {
  Json all = Json::array();
  for (const KernelResult& result : results) {
    Json row{{"kernel", result.kernel},
             {"implementation", result.implementation},
             {"n", result.n},
             {"threads", result.threads},
             {"seconds", result.seconds},
             {"stream_seconds", result.stream_seconds},
             {"ratio", result.ratio}};
    if (result.torch_seconds) row["torch_seconds"] = *result.torch_seconds;
    if (result.torch_ratio) row["torch_ratio"] = *result.torch_ratio;
    row["stream"] = result.stream;
    row["discarded_runs"] = result.discarded;
    all.push_back(std::move(row));
  }
  return all.dump(2) + "\n";
}

std::string exchange_header() {
  return fmt::format("{:<18} {:>7} {:>7} {:>10} {:>7} {:>13} {:>13} {:>8} {:>9} {:>6} {:>9}\n", "exchange", "workers",
                     "overlap", "n", "keep", "payload bytes", "sent bytes", "sent/own", "bits/n", "rounds", "ms");
}

std::string exchange_line(const ExchangeResult& result) {
  const double own = static_cast<double>(result.payload_bytes);
  return fmt::format("{:<18} {:>7} {:>7} {:>10} {:>7} {:>13} {:>13} {:>8.3f} {:>9.4f} {:>6} {:>9}\n", result.exchange,
                     result.workers, result.overlap ? fmt::format("{:.1f}", *result.overlap) : "-", result.n,
                     result.keep ? fmt::format("{:.4f}", *result.keep) : "-", result.payload_bytes,
                     result.sent_bytes_per_rank, own > 0 ? static_cast<double>(result.sent_bytes_per_rank) / own : 0.0,
                     result.bits_per_coordinate, result.rounds, milliseconds(result.seconds));
}

std::string exchange_legend() {
  return "payload: one rank's encoded message. sent: what a rank hands to others in the second step on the same\n"
         "         supports, the largest over ranks. sent/own: sent over payload. bits/n: bits sent a coordinate.\n"
         "overlap: the part of the supports that all ranks share. rounds: messages that follow one another.\n"
         "ms:      the step on this machine, all ranks being threads that share its cores; not a network.\n"
         "n is halved where all ranks together would not fit into memory. Every result was checked, and all ranks had\n"
         "the same bits.\n";
}

std::string exchanges_json(const std::vector<ExchangeResult>& results) {
  Json all = Json::array();
  for (const ExchangeResult& result : results) {
    all.push_back({{"exchange", result.exchange},
                   {"workers", result.workers},
                   {"n", result.n},
                   {"overlap", or_null(result.overlap)},
                   {"keep", or_null(result.keep)},
                   {"payload_bytes", result.payload_bytes},
                   {"sent_bytes_per_rank", result.sent_bytes_per_rank},
                   {"bits_per_coordinate", result.bits_per_coordinate},
                   {"rounds", result.rounds},
                   {"seconds", result.seconds}});
  }
  return all.dump(2) + "\n";
}

std::string method_header() {
  return fmt::format("{:<9} {:>7} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", "method", "workers", "n", "ms",
                     "bare ms", "overhead", "cpu ms", "bare cpu", "overhead", "the bare side");
}

std::string method_line(const MethodResult& result) {
  const auto percent = [](double share) { return fmt::format("{:.1f} %", share * 100.0); };
  return fmt::format("{:<9} {:>7} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", result.method, result.workers,
                     result.n, milliseconds(result.step_seconds), milliseconds(result.bare_seconds),
                     percent(result.overhead), milliseconds(result.step_cpu_seconds),
                     milliseconds(result.bare_cpu_seconds), percent(result.cpu_overhead), result.bare);
}

std::string method_legend() {
  return "ms:       a step by the method; bare: the same kernels and exchange called directly on the same data, in\n"
         "          turns with it. Wall time of the slowest rank, and CPU time of all ranks together; medians.\n"
         "overhead: median over the runs of a step's time over the bare one's, less 1. Both sides had the same bits\n"
         "          after every step.\n";
}

std::string methods_json(const std::vector<MethodResult>& results) {
  Json all = Json::array();
  for (const MethodResult& result : results) {
    all.push_back({{"method", result.method},
                   {"workers", result.workers},
                   {"n", result.n},
                   {"seconds", result.step_seconds},
                   {"bare_seconds", result.bare_seconds},
                   {"overhead", result.overhead},
                   {"cpu_seconds", result.step_cpu_seconds},
                   {"bare_cpu_seconds", result.bare_cpu_seconds},
                   {"cpu_overhead", result.cpu_overhead},
                   {"bare", result.bare}});
  }
  return all.dump(2) + "\n";
}

}  // namespace laconic::bench
