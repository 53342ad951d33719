#include "laconic/status.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "base/check.h"
#include "base/device_queue.h"
#include "laconic/error.h"
#include "laconic/place.h"

namespace laconic {

const char* payload_reason(PayloadFault fault) {
  switch (fault) {
    case PayloadFault::none: return "sound";
    case PayloadFault::too_short: return "cut short";
    case PayloadFault::wrong_magic: return "not a Laconic payload";
    case PayloadFault::wrong_version: return "of another wire version";
    case PayloadFault::wrong_codec: return "of another codec";
    case PayloadFault::wrong_length: return "not as long as its fields say";
    case PayloadFault::wrong_elements: return "for a view of another size";
    case PayloadFault::wrong_checksum: return "damaged: its checksum does not match";
    case PayloadFault::wrong_index: return "pointing outside its view, or out of order";
    case PayloadFault::wrong_count: return "of an impossible count";
    case PayloadFault::wrong_format: return "in an unknown format";
    case PayloadFault::wrong_norm: return "carrying a norm that is negative or not finite";
    case PayloadFault::wrong_blocks: return "for other blocks or entries than this rank drew, with another seed or step";
  }
  return "faulty in a way that this version does not know";
}

Status read_status(Place& place, StatusView status) {
  require_at_least("status", status.size(), 1);
  require_same_device("status", status.device(), place.device());
  if (place.queue() == nullptr) return status[0];
  Status here;
  place.queue()->read(&here, status.data(), sizeof(here));
  return here;
}

void write_status(Place& place, StatusView status, const Status& value) {
  require_at_least("status", status.size(), 1);
  require_same_device("status", status.device(), place.device());
  if (place.queue() == nullptr) {
    status[0] = value;
  } else {
    place.queue()->write(status.data(), &value, sizeof(value));
  }
}

void clear_status(Place& place, StatusView statuses) {
  require_same_device("status", statuses.device(), place.device());
  if (statuses.empty()) return;
  if (place.queue() == nullptr) {
    std::fill(statuses.begin(), statuses.end(), Status());
  } else {
    place.queue()->clear(statuses.data(), statuses.size_bytes());  // a new status has only zeros
  }
}

void raise_nonfinite(Place& place, StatusView status) {
  Status raised = read_status(place, status);
  raised.nonfinite = 1;
  write_status(place, status, raised);
}

void forget_nonfinite_rank(Place& place, StatusView status) {
  require_same_device("status", status.device(), place.device());
  if (place.queue() == nullptr) {
    status[0].nonfinite_rank = 0;
  } else {
    place.queue()->clear(&status.data()->nonfinite_rank, sizeof(Status::nonfinite_rank));
  }
}

Status require_sound(Place& place, StatusView view) {
  const Status status = read_status(place, view);
  if (status.fault == PayloadFault::none) return status;
  std::ostringstream message;
  message
      << "payload is " << payload_reason(status.fault) << ": at byte " << status.fault_offset << " found "
      << status.fault_found << ", expected " << status.fault_expected
      << ". All ranks must run the same version with the same settings; if they do, a link or a buffer damages data";
  throw CorruptPayload(message.str());
}

}  // namespace laconic
