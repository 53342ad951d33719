#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace laconic {

/// The MD5 sum (RFC 1321) as 32 lower-case hex digits: what publishers state of their files. It tells a damaged
/// download from a whole one; it is no protection against somebody who means harm.
std::string md5(std::span<const std::uint8_t> bytes);

/// Of a file, read in pieces. Error if it cannot be read.
std::string md5_of_file(const std::string& path);

}  // namespace laconic
