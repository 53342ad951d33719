#pragma once

#include <span>

#include "base/device_queue.h"
#include "laconic/call.h"

namespace laconic::threads {

/// Moves the bytes that rank `destination` receives in a collective that all ranks have called: reads the views of all
/// ranks and writes that rank's views. An all_reduce is divided into one index range per rank, and a call writes range
/// `destination` of all ranks. Sums run in rank order. Different destinations touch different memory, so several
/// threads may move them at the same time. Bytes on a device are copied by `queue`, for which the call waits; they are
/// not reduced.
void move_to(std::span<const Call> calls, std::size_t destination, DeviceQueue* queue);

}  // namespace laconic::threads
