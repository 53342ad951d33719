#pragma once

#include "methods/gradient_base.h"
#include "methods/model_base.h"
#include "methods/table.h"

// One maker per kind of method; the table names them.

namespace laconic {

GradientMaker make_sgd;
GradientMaker make_fp16;
GradientMaker make_bf16;
GradientMaker make_topk;
GradientMaker make_regtopk;
GradientMaker make_randk;
GradientMaker make_sign;
GradientMaker make_quantized;
GradientMaker make_dqsgd;

ModelMaker make_def;              // def-a and ef-rbgs too
ModelMaker make_largest_updates;  // def-topk, sparseloco
ModelMaker make_dense_updates;    // diloco
ModelMaker make_psync;
ModelMaker make_mgrawa;
ModelMaker make_lgrawa;
ModelMaker make_easgd;
ModelMaker make_lsgd;
ModelMaker make_localsgd;

}  // namespace laconic
