#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "laconic/method.h"
#include "laconic/place.h"

namespace laconic {

/// The options of a method. An option that is not set has the default of the method's row (`laconic methods` prints
/// the defaults). An option that the method does not have is an error.
struct MethodOptions {
  using Number = std::optional<double>;
  using Word = std::optional<std::string>;

  // Which entries travel.
  Number keep{};   ///< share of entries, (0, 1]
  Number ratio{};  ///< random blocks: one entry in `ratio` is sent
  Word scope{};    ///< model | tensor | chunk
  Number chunk{};  ///< entries of each scope if scope is chunk
  // How values travel.
  Word values{};   ///< f32 | f16 | bf16; sparse: also sign | two
  Word order{};    ///< rank_order | engine
  Word route{};    ///< sparse: automatic | gather | range; quantized: gather | scatter
  Word union_{};   ///< sum | keep
  Word return_{};  ///< sparse: exact | coded; quantized: full | requantized
  // RegTop-k.
  Number mu{};
  Word denominator{};  ///< previous | current
  Word step_guard{};   ///< off | on
  // Error feedback in parameter units.
  Number lambda{};
  Number momentum{};
  Number weight_decay{};
  Number local_steps{};
  Word diagnose{};  ///< off | on
  // Compressed updates.
  Number decay{};           ///< factor of what a meeting leaves unsent
  Number outer_rate{};
  Number outer_momentum{};
  Word read{};  ///< mean | point
  // Signs.
  Number beta{};
  Word ties{};          ///< random | plus
  Number abstain{};     ///< share of the mean magnitude below which a worker casts no vote; 0: all vote
  Number turns{};       ///< steps after which each entry has voted once
  Number early_sign{};  ///< number of first steps in which workers vote with the sign of the gradient itself
  // Quantizers.
  Number bits{};
  Word norm{};      ///< l2 | max
  Word rounding{};  ///< stochastic | nearest
  Word memory{};    ///< none | error
  Word rule{};  ///< nonconvex | convex
  Number tau{};
  Number kappa{};
  Number error_budget{};
  Number bit_budget{};
  Word norm_source{};  ///< workers | aggregate | exact
  Number window{};
  Number smoothness{};
  Number convexity{};
  Number step_size{};
  Number total_steps{};
  // Rounds.
  Number period{};
  Number pull{};
  Number proximity{};
  Number smoothing{};
  Word score{};  ///< shared | local
  Word pace{};   ///< lockstep | async
};

/// A host's own optimizer. It updates `model`, a worker's parameters, with `gradient`.
using HostStep = std::function<void(View<const float> gradient, View<float> model)>;

/// The optimizer of a lifted gradient method, or of a round method's local steps.
struct OptimizerOptions {
  std::string name = "sgd";  ///< sgd | adam | adamw | host
  double momentum = 0.0;
  bool nesterov = false;
  double weight_decay = 0.0;  ///< part of the gradient; of adamw decoupled from it: the model shrinks by η·weight_decay
  std::string weight_decay_on = "all";  ///< all | matrices: the tensors that it applies to
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  /// For name = host. It is called wherever an optimizer would step, but not in a step that is dropped. The host saves
  /// the optimizer's state.
  HostStep host{};
};

/// Makes a gradient method by its name in the table. Collective: if ranks differ in wire version, method or parameters,
/// all throw an InvalidConfig that names the difference.
std::unique_ptr<GradientMethod> make_method(std::string_view name, const MethodOptions& options,
                                            Communicator& communicator, Place& place);

/// Makes any method as a model method. A gradient method is lifted with the optimizer. Collective.
std::unique_ptr<ModelMethod> make_model_method(std::string_view name, const MethodOptions& options,
                                               const OptimizerOptions& optimizer, Communicator& communicator,
                                               Place& place);

}  // namespace laconic
