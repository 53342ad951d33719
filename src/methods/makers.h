#pragma once

#include "methods/settings.h"

// One maker per kind of method; the table names them.

namespace laconic {

std::unique_ptr<GradientMethod> make_sgd(const Settings& settings, Communicator& communicator, Place& place);
std::unique_ptr<GradientMethod> make_fp16(const Settings& settings, Communicator& communicator, Place& place);
std::unique_ptr<GradientMethod> make_bf16(const Settings& settings, Communicator& communicator, Place& place);
std::unique_ptr<GradientMethod> make_topk(const Settings& settings, Communicator& communicator, Place& place);
std::unique_ptr<GradientMethod> make_regtopk(const Settings& settings, Communicator& communicator, Place& place);
std::unique_ptr<GradientMethod> make_randk(const Settings& settings, Communicator& communicator, Place& place);
std::unique_ptr<GradientMethod> make_sign(const Settings& settings, Communicator& communicator, Place& place);
std::unique_ptr<GradientMethod> make_quantized(const Settings& settings, Communicator& communicator, Place& place);
std::unique_ptr<GradientMethod> make_dqsgd(const Settings& settings, Communicator& communicator, Place& place);

std::unique_ptr<ModelMethod> make_def(const Settings& settings, const OptimizerOptions& optimizer,
                                      Communicator& communicator, Place& place);
/// Also ef-rbgs, which is def-a with lambda 0.
std::unique_ptr<ModelMethod> make_def_a(const Settings& settings, const OptimizerOptions& optimizer,
                                        Communicator& communicator, Place& place);
std::unique_ptr<ModelMethod> make_psync(const Settings& settings, const OptimizerOptions& optimizer,
                                        Communicator& communicator, Place& place);
std::unique_ptr<ModelMethod> make_mgrawa(const Settings& settings, const OptimizerOptions& optimizer,
                                         Communicator& communicator, Place& place);
std::unique_ptr<ModelMethod> make_lgrawa(const Settings& settings, const OptimizerOptions& optimizer,
                                         Communicator& communicator, Place& place);
std::unique_ptr<ModelMethod> make_easgd(const Settings& settings, const OptimizerOptions& optimizer,
                                        Communicator& communicator, Place& place);
std::unique_ptr<ModelMethod> make_lsgd(const Settings& settings, const OptimizerOptions& optimizer,
                                       Communicator& communicator, Place& place);
std::unique_ptr<ModelMethod> make_localsgd(const Settings& settings, const OptimizerOptions& optimizer,
                                           Communicator& communicator, Place& place);

}  // namespace laconic
