#pragma once

#include <string>

#include "torch/train/flat.h"
#include "torch/train/safetensors.h"

namespace laconic {

/// Writes parameters and running statistics under their names, so that a Python model with the same names can load
/// them: model.load_state_dict(safetensors.torch.load_file(path)).
void export_model(const std::string& path, const FlatNetwork& network, const Remarks& remarks = {});

/// Reads values into `parameters`, in the network's order, and into the network's running statistics. Throws Error, and
/// writes nothing, if a tensor is missing, unknown or of another shape.
void import_model(const std::string& path, FlatNetwork& network, View<float> parameters);

}  // namespace laconic
