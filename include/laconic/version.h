#pragma once

namespace laconic {

inline constexpr const char* kVersion = "0.1.0";

/// Version of the wire structs, which docs/wire-format.md describes. Ranks with different versions reject each other.
inline constexpr unsigned char kWireVersion = 2;

}  // namespace laconic
