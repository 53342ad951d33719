#pragma once

#include <string>
#include <string_view>

namespace laconic {

/// Makes text safe to print on a terminal. Control characters, which could move the cursor, change colours or set the
/// title, and bytes that are not valid UTF-8 are escaped as \n, \t or \x1b; everything else is unchanged. Use it for
/// text from files: names and values in messages, tables and notes.
std::string printable(std::string_view text);

}  // namespace laconic
