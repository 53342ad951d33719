#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace laconic {

/// The MD5 sum (RFC 1321) as 32 lower-case hex digits, which publishers state for their files. It detects a damaged
/// download, but does not protect against an attacker.
std::string md5(std::span<const std::uint8_t> bytes);

/// The MD5 sum of a file, which is read in blocks. Throws Error if it cannot be read.
std::string md5_of_file(const std::string& path);

}  // namespace laconic
