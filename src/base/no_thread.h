#pragma once

#include <string>

#include "laconic/error.h"

namespace laconic {

/// For a system that starts no further thread: `what` happened, the system's reason, the settings to lower and the
/// limits to raise.
Error no_thread(const std::string& what, const std::string& settings, const std::exception& reason);

}  // namespace laconic
