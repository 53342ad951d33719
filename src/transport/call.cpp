#include "transport/call.h"

#include <string_view>

#include "base/check.h"
#include "laconic/error.h"

namespace laconic {
namespace {

template <class T>
void require_host(std::string_view name, View<T> view) {
  if (view.device() == Device::cpu) return;
  throw InvalidConfig("view " + std::string(name) + " lies on " + device_name(view.device()) +
                      ", this communicator moves host memory: copy the view to the cpu first");
}

/// A whole number of parts, or InvalidConfig.
std::uint64_t part_bytes(std::string_view name, std::uint64_t bytes, int ranks) {
  const auto parts = static_cast<std::uint64_t>(ranks);
  if (bytes % parts != 0) {
    throw InvalidConfig("view " + std::string(name) + " has " + std::to_string(bytes) +
                        " bytes, expected a multiple of " + std::to_string(parts) +
                        ", the number of ranks: pad it, or use the call of varying sizes");
  }
  return bytes / parts;
}

void require_parts(std::string_view name, std::span<const Part> parts, int ranks, std::uint64_t view_bytes) {
  require_size(name, parts.size(), static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    if (part.offset <= view_bytes && part.bytes <= view_bytes - part.offset) continue;
    throw InvalidConfig(std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(part.bytes) +
                        " bytes from byte " + std::to_string(part.offset) + " on, its view has " +
                        std::to_string(view_bytes) + ": pass parts that lie inside their view");
  }
}

const char* kind_name(CallKind kind) {
  switch (kind) {
    case CallKind::all_reduce: return "all_reduce";
    case CallKind::reduce_scatter: return "reduce_scatter";
    case CallKind::all_gather: return "all_gather";
    case CallKind::all_gather_varying: return "all_gather_varying";
    case CallKind::all_to_all: return "all_to_all";
    case CallKind::all_to_all_varying: return "all_to_all_varying";
    case CallKind::broadcast: return "broadcast";
    case CallKind::barrier: return "barrier";
  }
  return "unknown call";
}

}  // namespace

std::string describe(const Call& call) {
  std::string text = kind_name(call.kind);
  const std::string bytes = " of " + std::to_string(call.bytes) + " bytes";
  switch (call.kind) {
    case CallKind::all_reduce: return text + (call.reduction == Reduction::sum ? " (sum)" : " (max)") + bytes;
    case CallKind::reduce_scatter:
    case CallKind::all_gather:
    case CallKind::all_to_all: return text + bytes + " a rank";
    case CallKind::all_gather_varying: return text + bytes + " in all";
    case CallKind::broadcast: return text + bytes + " from rank " + std::to_string(call.root);
    case CallKind::all_to_all_varying:
    case CallKind::barrier: return text;
  }
  return text;
}

Call all_reduce_call(View<float> values, Reduction reduction) {
  require_host("values", values);
  return {.kind = CallKind::all_reduce,
          .reduction = reduction,
          .bytes = values.size_bytes(),
          .receive = as_writable_bytes(values).data()};
}

Call reduce_scatter_call(int ranks, View<const float> values, View<float> chunk) {
  require_host("values", values);
  require_host("chunk", chunk);
  require_size("values", values.size(), chunk.size() * static_cast<std::size_t>(ranks));
  return {.kind = CallKind::reduce_scatter,
          .bytes = chunk.size_bytes(),
          .send = as_bytes(values).data(),
          .receive = as_writable_bytes(chunk).data()};
}

Call all_gather_call(int ranks, View<const std::byte> mine, View<std::byte> all) {
  require_host("mine", mine);
  require_host("all", all);
  require_size("all", all.size(), mine.size() * static_cast<std::size_t>(ranks));
  return {.kind = CallKind::all_gather, .bytes = mine.size(), .send = mine.data(), .receive = all.data()};
}

Call all_gather_varying_call(int ranks, int rank, View<const std::byte> mine, View<std::byte> all,
                             std::span<const Part> parts) {
  require_host("mine", mine);
  require_host("all", all);
  require_parts("parts", parts, ranks, all.size());
  require_size("mine", mine.size(), parts[static_cast<std::size_t>(rank)].bytes);
  std::uint64_t total = 0;
  for (const Part& part : parts) total += part.bytes;
  return {.kind = CallKind::all_gather_varying,
          .bytes = total,
          .send = mine.data(),
          .receive = all.data(),
          .receive_parts = parts};
}

Call all_to_all_call(int ranks, View<const std::byte> send, View<std::byte> receive) {
  require_host("send", send);
  require_host("receive", receive);
  require_size("receive", receive.size(), send.size());
  return {.kind = CallKind::all_to_all,
          .bytes = part_bytes("send", send.size(), ranks),
          .send = send.data(),
          .receive = receive.data()};
}

Call all_to_all_varying_call(int ranks, int rank, View<const std::byte> send, std::span<const Part> send_parts,
                             View<std::byte> receive, std::span<const Part> receive_parts) {
  require_host("send", send);
  require_host("receive", receive);
  require_parts("send_parts", send_parts, ranks, send.size());
  require_parts("receive_parts", receive_parts, ranks, receive.size());
  const auto own = static_cast<std::size_t>(rank);
  if (send_parts[own].bytes != receive_parts[own].bytes) {
    throw InvalidConfig("send_parts[" + std::to_string(rank) + "] has " + std::to_string(send_parts[own].bytes) +
                        " bytes, receive_parts[" + std::to_string(rank) + "] has " +
                        std::to_string(receive_parts[own].bytes) +
                        ": a rank receives from itself what it sends to itself");
  }
  return {.kind = CallKind::all_to_all_varying,
          .send = send.data(),
          .receive = receive.data(),
          .send_parts = send_parts,
          .receive_parts = receive_parts};
}

Call broadcast_call(int ranks, View<std::byte> bytes, int root) {
  require_host("bytes", bytes);
  if (root < 0 || root >= ranks) {
    throw InvalidConfig("root must be in 0.." + std::to_string(ranks - 1) + ", got " + std::to_string(root) +
                        ": name a rank of this communicator");
  }
  return {.kind = CallKind::broadcast, .root = root, .bytes = bytes.size(), .receive = bytes.data()};
}

}  // namespace laconic
