#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "laconic/view.h"

// The safetensors format, in 32-bit floats: eight bytes with the length of a JSON header, the header (name → dtype,
// shape, data_offsets; "__metadata__" → texts), then the values, little endian, one tensor after the other. Python
// reads it with the package of that name or with twenty lines of its own; nothing in such a file can run.

namespace laconic {

struct NamedArray {
  std::string name;
  std::vector<std::uint64_t> shape;  ///< empty: one value
  View<const float> values;
};

using Remarks = std::map<std::string, std::string>;

/// Written beside and renamed. Error where that fails.
void write_safetensors(const std::string& path, std::span<const NamedArray> arrays, const Remarks& remarks = {});

struct SafetensorsFile {
  std::vector<NamedArray> arrays;  ///< as they lie in the file; their values are in `memory`
  Remarks remarks;
  std::vector<float> memory;
};

/// Error naming the file, the offset, what was expected there and what was found, unless every byte is accounted for.
SafetensorsFile read_safetensors(const std::string& path);

}  // namespace laconic
