#pragma once

#include <cstdint>

#include "laconic/view.h"

namespace laconic {

class Place;

/// Why a decoder rejected a payload. Zero means that it did not; `payload_reason` returns the reason as text.
enum class PayloadFault : std::uint32_t {
  none,
  too_short,
  wrong_magic,
  wrong_version,
  wrong_codec,
  wrong_length,
  wrong_elements,
  wrong_checksum,
  wrong_index,
  wrong_count,
  wrong_format,
  wrong_norm,
  wrong_blocks,
};

/// What kernels, codecs and exchanges report. It lies in the memory of the place that runs them, so that a device need
/// not wait for the CPU. `read_status` copies it to the CPU; `require_sound` turns a fault into an error.
/// Flags are sticky: a kernel sets them and never clears them. To reset them, assign a new Status; keep `threshold` to
/// start the next top-k warm.
struct Status {
  std::uint64_t count = 0;          ///< entries selected or decoded by the last call
  std::uint64_t payload_bytes = 0;  ///< length of the last payload that was encoded
  float threshold = 0.0F;           ///< top-k: input: a guess (0: cold start); output: smallest magnitude selected
  float norm = 0.0F;                ///< the last norm that was taken
  std::uint32_t nonfinite = 0;      ///< 1 once a NaN or an Inf was read
  PayloadFault fault = PayloadFault::none;  ///< the first fault that a decoder met
  std::uint64_t fault_offset = 0;           ///< byte offset of the fault in its payload
  std::uint64_t fault_expected = 0;         ///< the value expected there, if it is a single number
  std::uint64_t fault_found = 0;            ///< the value found there
  std::uint32_t rescans = 0;                ///< top-k: passes beyond the first, summed over calls
  std::uint32_t nonfinite_rank = 0;  ///< exchanges: 1 + the lowest rank whose payload was flagged non-finite, or 0
};
static_assert(sizeof(Status) == 64);

using StatusView = View<Status>;

inline StatusView view_of(Status& status) { return {&status, 1}; }

/// Copies the status to the CPU. On a device it waits for the place's work.
Status read_status(Place& place, StatusView status);

/// Copies a status from the CPU, after the place's work so far.
void write_status(Place& place, StatusView status, const Status& value);

/// Resets all statuses of the view. Does not wait.
void clear_status(Place& place, StatusView statuses);

/// Sets status.nonfinite: the CPU met a value that is not finite.
void raise_nonfinite(Place& place, StatusView status);

/// Sets status.nonfinite_rank to 0. Does not wait.
void forget_nonfinite_rank(Place& place, StatusView status);

/// Throws CorruptPayload if a decoder met a fault. The message names the offset, the value found and the value
/// expected. Returns the status.
Status require_sound(Place& place, StatusView status);

const char* payload_reason(PayloadFault fault);

}  // namespace laconic
