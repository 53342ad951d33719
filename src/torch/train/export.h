#pragma once

#include <string>

#include "torch/train/flat.h"
#include "torch/train/safetensors.h"

namespace laconic {

/// Parameters and running statistics under their names, so that a Python model with the same names loads them:
/// model.load_state_dict(safetensors.torch.load_file(path)).
void export_model(const std::string& path, const FlatNetwork& network, const Remarks& remarks = {});

/// The values into `parameters`, whose order is the network's, and into the network's running statistics. Error where a
/// tensor is missing, unknown or of another shape: then nothing is written.
void import_model(const std::string& path, const FlatNetwork& network, View<float> parameters);

}  // namespace laconic
