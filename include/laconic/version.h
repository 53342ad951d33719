#pragma once

namespace laconic {

inline constexpr const char* kVersion = "0.1.0";

/// Version of the wire structs; ranks that differ refuse each other. docs/wire-format.md describes it.
inline constexpr unsigned char kWireVersion = 1;

}  // namespace laconic
