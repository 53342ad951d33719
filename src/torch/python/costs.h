#pragma once

#include "laconic/traffic.h"
#include "torch/python/bindings.h"

namespace laconic::python {

/// Bytes and seconds in the form of `metrics()` of hooks and optimizers. `ratio` is the bytes of the values as float32
/// divided by the bytes of the payloads.
inline py::dict costs_of(const Traffic& traffic, std::uint64_t dense_bytes, double select_seconds) {
  py::dict entry;
  entry["payload_bytes"] = traffic.payload_bytes;
  entry["sent_bytes"] = traffic.sent_bytes;
  entry["received_bytes"] = traffic.received_bytes;
  entry["sent_messages"] = traffic.sent_messages;
  entry["dense_bytes"] = dense_bytes;
  entry["ratio"] =
      traffic.payload_bytes == 0 ? 1.0 : static_cast<double>(dense_bytes) / static_cast<double>(traffic.payload_bytes);
  entry["select_seconds"] = select_seconds;
  entry["encode_seconds"] = traffic.encode_seconds;
  entry["exchange_seconds"] = traffic.exchange_seconds;
  entry["decode_seconds"] = traffic.decode_seconds;
  return entry;
}

/// The entries of `metrics()` that hooks and optimizers have in common. `described` makes an entry of the costs of the
/// last step, and of all steps.
template <class Metrics, class Described>
py::dict metrics_entry(const Metrics& metrics, const Described& described) {
  const py::dict total = described(metrics.total);
  py::dict entry;
  entry["steps"] = metrics.steps;
  entry["skipped"] = metrics.skipped;
  entry["residual_norm"] = metrics.residual_norm;
  entry["last"] = described(metrics.last);
  entry["total"] = total;
  entry["ratio"] = total["ratio"];
  return entry;
}

}  // namespace laconic::python
