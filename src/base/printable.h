#pragma once

#include <string>
#include <string_view>

namespace laconic {

/// Text that may stand on a terminal whoever wrote it: control characters, which could move the cursor, colour or
/// retitle it, and bytes that are no UTF-8 become \n, \t or \x1b; all else stays as it is. For what comes from files:
/// names and values in messages, tables and notes.
std::string printable(std::string_view text);

}  // namespace laconic
