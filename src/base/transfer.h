#pragma once

#include <cstring>

#include "base/device_queue.h"
#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic {

/// Copies a view on the place's device to CPU memory. Waits for the place's work.
template <class T>
void copy_to_cpu(Place& place, View<const T> from, T* to) {
  if (from.empty()) return;
  if (place.queue() != nullptr) return place.queue()->read(to, from.data(), from.size_bytes());
  std::memcpy(to, from.data(), from.size_bytes());
}

/// Whether an engine that moves messages can be given this place's memory: on a device through its communicator, on the
/// CPU unless tests keep the memory closed.
inline bool engines_reach(Place& place) { return place.queue() == nullptr || place.device() != Device::cpu; }

/// Reads one entry of a view on the place's device. Waits for the place's work.
template <class T>
T read_one(Place& place, View<const T> from) {
  T value{};
  copy_to_cpu<T>(place, from.sub(0, 1), &value);
  return value;
}

/// Copies CPU memory to a view on the place's device.
template <class T>
void copy_from_cpu(Place& place, const T* from, View<T> to) {
  if (to.empty()) return;
  if (place.queue() != nullptr) return place.queue()->write(to.data(), from, to.size_bytes());
  std::memcpy(to.data(), from, to.size_bytes());
}

}  // namespace laconic
