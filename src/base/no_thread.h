#pragma once

#include <string>

#include "laconic/error.h"

namespace laconic {

/// The error for a system that cannot start another thread. Its message contains `what` happened, the system's reason,
/// the settings to lower and the limits to raise.
Error no_thread(const std::string& what, const std::string& settings, const std::exception& reason);

}  // namespace laconic
