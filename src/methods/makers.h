#pragma once

#include "methods/gradient_base.h"
#include "methods/model_base.h"
#include "methods/settings.h"

// One maker a method family; the table names them.

namespace laconic {

std::unique_ptr<GradientBase> make_sgd(const Settings& settings, Communicator& communicator, Place& place);
std::unique_ptr<GradientBase> make_half(const Settings& settings, Communicator& communicator, Place& place);
std::unique_ptr<GradientBase> make_topk(const Settings& settings, Communicator& communicator, Place& place);
std::unique_ptr<GradientBase> make_regtopk(const Settings& settings, Communicator& communicator, Place& place);
std::unique_ptr<GradientBase> make_randk(const Settings& settings, Communicator& communicator, Place& place);
std::unique_ptr<GradientBase> make_sign(const Settings& settings, Communicator& communicator, Place& place);
std::unique_ptr<GradientBase> make_quantized(const Settings& settings, Communicator& communicator, Place& place);
std::unique_ptr<GradientBase> make_dqsgd(const Settings& settings, Communicator& communicator, Place& place);

std::unique_ptr<ModelBase> make_def(const Settings& settings, const OptimizerOptions& optimizer,
                                      Communicator& communicator, Place& place);
std::unique_ptr<ModelBase> make_psync(const Settings& settings, const OptimizerOptions& optimizer,
                                        Communicator& communicator, Place& place);
std::unique_ptr<ModelBase> make_grawa(const Settings& settings, const OptimizerOptions& optimizer,
                                        Communicator& communicator, Place& place);
std::unique_ptr<ModelBase> make_easgd(const Settings& settings, const OptimizerOptions& optimizer,
                                        Communicator& communicator, Place& place);
std::unique_ptr<ModelBase> make_lsgd(const Settings& settings, const OptimizerOptions& optimizer,
                                       Communicator& communicator, Place& place);
std::unique_ptr<ModelBase> make_localsgd(const Settings& settings, const OptimizerOptions& optimizer,
                                           Communicator& communicator, Place& place);

}  // namespace laconic
