#pragma once

#include <functional>

#include "laconic/communicator.h"

namespace laconic {

/// Runs `body` on every rank; it must not be collective. If it throws on some ranks, then every rank throws what the
/// lowest of them threw, as InvalidConfig if it was one and as Error otherwise. So no rank goes on, or waits for one
/// that does not. Collective.
void succeed_together(Communicator& group, const std::function<void()>& body);

}  // namespace laconic
