#pragma once

#include "base/message_memory.h"
#include "exchange/exchange.h"
#include "kernels/convert/convert.h"

namespace laconic {

/// Sends one rank's dense view to all ranks.
///   1. the root encodes; the engine's broadcast of n·b bytes, b = 4 or 2, and a header of 32 bytes
///   2. every rank decodes, the root too
/// Traffic is counted as in a ring that begins at the root: every rank except the last forwards the payload once.
class Broadcast : public Exchange {
 public:
  Broadcast(Communicator& communicator, Place& place, std::uint64_t n, ValueFormat format = ValueFormat::f32);
  ~Broadcast() override { abandon(); }

  /// `values` is read on `root` and written on all ranks; all ranks pass the same `root`. A NaN or an Inf at the root
  /// is flagged on every rank.
  void start(View<float> values, int root, StatusView status);

 private:
  Handle stage(int index) override;

  std::uint64_t n_;
  ValueFormat format_;
  View<float> values_;
  int root_ = 0;
  std::uint64_t payload_bytes_;
  MessageMemory payload_;
};

}  // namespace laconic
