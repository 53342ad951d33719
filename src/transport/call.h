#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "laconic/communicator.h"

namespace laconic {

enum class CallKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_gather_varying,
  all_to_all,
  all_to_all_varying,
  broadcast,
  barrier,
};

/// What one rank asks of one collective, checked against its views and free of their types.
struct Call {
  CallKind kind = CallKind::barrier;
  Reduction reduction = Reduction::sum;
  int root = 0;
  std::uint64_t bytes = 0;  ///< of a part where all parts are equal, else of the whole; 0 for pairs of their own size
  const std::byte* send = nullptr;  ///< all_reduce and broadcast work in place and have only `receive`
  std::byte* receive = nullptr;
  std::span<const Part> send_parts{};     ///< all_to_all_varying
  std::span<const Part> receive_parts{};  ///< all_to_all_varying, all_gather_varying
};

/// "all_gather of 16 bytes a rank": what error messages call it.
std::string describe(const Call& call);

// One maker a collective. Each throws InvalidConfig if a view lies on a device, has the wrong size for `ranks` ranks,
// or a part reaches beyond its view. Views of one call must not overlap, except that `mine` may already lie in its
// place in `all`. The spans of parts are not copied.
Call all_reduce_call(View<float> values, Reduction reduction);
Call reduce_scatter_call(int ranks, View<const float> values, View<float> chunk);
Call all_gather_call(int ranks, View<const std::byte> mine, View<std::byte> all);
Call all_gather_varying_call(int ranks, int rank, View<const std::byte> mine, View<std::byte> all,
                             std::span<const Part> parts);
Call all_to_all_call(int ranks, View<const std::byte> send, View<std::byte> receive);
Call all_to_all_varying_call(int ranks, int rank, View<const std::byte> send, std::span<const Part> send_parts,
                             View<std::byte> receive, std::span<const Part> receive_parts);
Call broadcast_call(int ranks, View<std::byte> bytes, int root);

}  // namespace laconic
