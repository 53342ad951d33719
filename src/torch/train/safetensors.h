#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "laconic/view.h"

// The safetensors format, in 32-bit floats: eight bytes with the length of a JSON header, the header (name → dtype,
// shape, data_offsets; "__metadata__" → texts), then the values, little endian, one tensor after another. Python can
// read it with the package of that name or with twenty lines of code. Such a file cannot contain code.

namespace laconic {

struct NamedArray {
  std::string name;
  std::vector<std::uint64_t> shape;  ///< empty: one value
  View<const float> values;
};

using Remarks = std::map<std::string, std::string>;

/// Writes a temporary file beside `path` and renames it. Throws Error if that fails.
void write_safetensors(const std::string& path, std::span<const NamedArray> arrays, const Remarks& remarks = {});

struct SafetensorsFile {
  std::vector<NamedArray> arrays;  ///< in the order of the file; their values are in `memory`
  Remarks remarks;
  std::vector<float> memory;
};

/// Throws an Error that names the file, the offset, what was expected there and what was found unless every byte of the
/// file is accounted for.
SafetensorsFile read_safetensors(const std::string& path);

}  // namespace laconic
