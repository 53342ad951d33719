#include "exchange/broadcast.h"

#include <string>

#include "base/check.h"
#include "codecs/dense.h"
#include "laconic/error.h"

namespace laconic {

Broadcast::Broadcast(Communicator& communicator, Place& place, std::uint64_t n, ValueFormat format)
    : Exchange(communicator, place), n_(n), format_(format), payload_bytes_(dense::max_payload_bytes(n, format)) {
  payload_.reserve(place, payload_bytes_);
}

void Broadcast::start(View<float> values, int root, StatusView status) {
  require_idle();
  require_size("values", values.size(), n_);
  require_same_device("values", values.device(), place().device());
  if (root < 0 || root >= size()) {
    throw InvalidConfig("root must be in 0.." + std::to_string(size() - 1) + ", got " + std::to_string(root));
  }
  values_ = values;
  root_ = root;
  begin(status);
}

Handle Broadcast::stage(int index) {
  const View<std::byte> payload = payload_.view(payload_bytes_);
  if (index == 0) {
    if (rank() == root_) {
      const Stopwatch watch(cost().encode_seconds);
      dense::encode(place(), values_, format_, payload, status());
    }
    cost().payload_bytes = rank() == root_ ? payload.size() : 0;
    cost().sent_bytes = (rank() + 1) % size() == root_ ? 0 : payload.size();
    cost().received_bytes = rank() == root_ ? 0 : payload.size();
    cost().sent_messages = cost().sent_bytes == 0 ? 0 : 1;
    return communicator().broadcast(payload, root_);
  }
  const Stopwatch watch(cost().decode_seconds);
  dense::decode(place(), payload, format_, values_, status());
  require_payloads_sound();
  note_nonfinite(payload, root_);
  done();
  return {};
}

}  // namespace laconic
