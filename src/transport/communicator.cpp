// The collectives: each checks its views and makes a Call of them, which the transport starts.

#include "laconic/communicator.h"

#include "base/check.h"
#include "laconic/error.h"

namespace laconic {
namespace {

template <class T>
void require_reachable(const Communicator& communicator, std::string_view name, View<T> view) {
  if (communicator.takes(view.device())) return;
  throw InvalidConfig("view " + std::string(name) + " lies on " + device_name(view.device()) +
                      ", this communicator moves CPU memory: copy the view to the cpu first");
}

void require_reducible(const Communicator& communicator, View<const float> values) {
  if (communicator.reduces(values.device())) return;
  throw InvalidConfig("view values lies on " + std::string(device_name(values.device())) +
                      ", this communicator reduces CPU memory: copy the view to the cpu first");
}

/// The views of a call that has two; an empty one may lie anywhere.
template <class Sent, class Received>
void require_reachable(const Communicator& communicator, std::string_view sent_name, View<Sent> sent,
                       std::string_view received_name, View<Received> received) {
  require_reachable(communicator, sent_name, sent);
  require_reachable(communicator, received_name, received);
  if (sent.empty() || received.empty() || sent.device() == received.device()) return;
  throw InvalidConfig("view " + std::string(sent_name) + " lies on " + device_name(sent.device()) + ", " +
                      std::string(received_name) + " on " + device_name(received.device()) +
                      ": pass views on one device");
}

/// Bytes of one rank where all ranks have as many; InvalidConfig if they do not divide.
std::uint64_t bytes_per_rank(std::string_view name, std::uint64_t bytes, int size) {
  const auto ranks = static_cast<std::uint64_t>(size);
  if (bytes % ranks != 0) {
    throw InvalidConfig("view " + std::string(name) + " has " + std::to_string(bytes) +
                        " bytes, expected a multiple of " + std::to_string(ranks) +
                        ", the number of ranks: pad it, or use the call of varying sizes");
  }
  return bytes / ranks;
}

void require_ranges(std::string_view name, std::span<const ByteRange> ranges, int size, std::uint64_t view_bytes) {
  require_size(name, ranges.size(), static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const ByteRange& range = ranges[i];
    if (range.offset <= view_bytes && range.bytes <= view_bytes - range.offset) continue;
    throw InvalidConfig(std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(range.bytes) +
                        " bytes from byte " + std::to_string(range.offset) + " on, its view has " +
                        std::to_string(view_bytes) + ": pass ranges that lie inside their view");
  }
}

}  // namespace

Handle Communicator::all_reduce(View<float> values, Reduction reduction) {
  require_reducible(*this, values);
  return start({.kind = CallKind::all_reduce,
                .reduction = reduction,
                .device = values.device(),
                .bytes = values.size_bytes(),
                .receive = as_writable_bytes(values).data()});
}

Handle Communicator::reduce_scatter(View<const float> values, View<float> own) {
  require_reachable(*this, "values", values, "own", own);
  require_reducible(*this, values);
  require_size("values", values.size(), own.size() * static_cast<std::size_t>(size()));
  return start({.kind = CallKind::reduce_scatter,
                .device = own.device(),
                .bytes = own.size_bytes(),
                .send = as_bytes(values).data(),
                .receive = as_writable_bytes(own).data()});
}

Handle Communicator::all_gather(View<const std::byte> mine, View<std::byte> all) {
  require_reachable(*this, "mine", mine, "all", all);
  require_size("all", all.size(), mine.size() * static_cast<std::size_t>(size()));
  return start({.kind = CallKind::all_gather,
                .device = all.device(),
                .bytes = mine.size(),
                .send = mine.data(),
                .receive = all.data()});
}

Handle Communicator::all_gather_varying(View<const std::byte> mine, View<std::byte> all,
                                        std::span<const ByteRange> ranges) {
  require_reachable(*this, "mine", mine, "all", all);
  require_ranges("ranges", ranges, size(), all.size());
  require_size("mine", mine.size(), ranges[static_cast<std::size_t>(rank())].bytes);
  std::uint64_t total = 0;
  for (const ByteRange& range : ranges) total += range.bytes;
  return start({.kind = CallKind::all_gather_varying,
                .device = all.device(),
                .bytes = total,
                .send = mine.data(),
                .receive = all.data(),
                .receive_ranges = ranges});
}

Handle Communicator::all_to_all(View<const std::byte> send, View<std::byte> receive) {
  require_reachable(*this, "send", send, "receive", receive);
  require_size("receive", receive.size(), send.size());
  return start({.kind = CallKind::all_to_all,
                .device = receive.device(),
                .bytes = bytes_per_rank("send", send.size(), size()),
                .send = send.data(),
                .receive = receive.data()});
}

Handle Communicator::all_to_all_varying(View<const std::byte> send, std::span<const ByteRange> send_ranges,
                                        View<std::byte> receive, std::span<const ByteRange> receive_ranges) {
  require_reachable(*this, "send", send, "receive", receive);
  require_ranges("send_ranges", send_ranges, size(), send.size());
  require_ranges("receive_ranges", receive_ranges, size(), receive.size());
  const auto own = static_cast<std::size_t>(rank());
  if (send_ranges[own].bytes != receive_ranges[own].bytes) {
    const std::string index = "[" + std::to_string(own) + "] has ";
    throw InvalidConfig("send_ranges" + index + std::to_string(send_ranges[own].bytes) + " bytes, receive_ranges" +
                        index + std::to_string(receive_ranges[own].bytes) +
                        ": a rank receives from itself what it sends to itself");
  }
  return start({.kind = CallKind::all_to_all_varying,
                .device = receive.device(),
                .send = send.data(),
                .receive = receive.data(),
                .send_ranges = send_ranges,
                .receive_ranges = receive_ranges});
}

Handle Communicator::broadcast(View<std::byte> bytes, int root) {
  require_reachable(*this, "bytes", bytes);
  if (root < 0 || root >= size()) {
    throw InvalidConfig("root must be in 0.." + std::to_string(size() - 1) + ", got " + std::to_string(root) +
                        ": name a rank of this communicator");
  }
  return start({.kind = CallKind::broadcast,
                .root = root,
                .device = bytes.device(),
                .bytes = bytes.size(),
                .receive = bytes.data()});
}

Handle Communicator::barrier() { return start({.kind = CallKind::barrier}); }

std::unique_ptr<Communicator> Communicator::split(int color) {
  throw InvalidConfig("a communicator over " + description() + " cannot be split, colour " + std::to_string(color) +
                      " was asked for: use threads, MPI or a process group of torch that Laconic has made");
}

}  // namespace laconic
