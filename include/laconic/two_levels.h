#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "laconic/communicator.h"
#include "laconic/methods.h"

// Two levels: machines with several ranks each, in which bytes are cheap, and a slower network between the machines. In
// each step gradients are averaged uncompressed inside each machine. Each local rank runs the method on its slice of
// the gradient, together with the ranks of the same number on the other machines. Then the slices are gathered inside
// the machine, so its ranks share the bytes that leave it. Names in code and options call a machine a host:
//
//   TwoLevels levels(communicator, hosts_by_name(communicator));
//   const auto method = make_method("topk", {.keep = 0.01}, levels, place);

namespace laconic {

/// The machine of each rank, numbered from 0 in the order of lowest ranks. Each has `ranks_per_host` consecutive
/// ranks. Throws InvalidConfig unless that number divides the number of ranks.
std::vector<int> hosts_of_size(int ranks, int ranks_per_host);

/// The same for any machines: ranks that pass the same `color` are on one machine. Collective.
std::vector<int> hosts_by_color(Communicator& communicator, int color);

/// The same from host names: the environment variable LACONIC_HOST if it is set, otherwise the system's host
/// name. Collective.
std::vector<int> hosts_by_name(Communicator& communicator);

/// The ranks of a run on two levels. Methods share one, as they share a communicator, and it must outlive them.
class TwoLevels {
 public:
  /// `hosts` has the number of each rank's machine. Collective. Throws InvalidConfig on all ranks if they pass
  /// different numbers, if the machines have different numbers of ranks, or if the calls of different groups must not
  /// overlap (Communicator::duplicates_overlap).
  TwoLevels(Communicator& all, std::span<const int> hosts);

  Communicator& all() const { return all_; }
  Communicator& within() const { return *within_; }    ///< the ranks of this rank's machine
  Communicator& between() const { return *between_; }  ///< the ranks that have this one's number in their machines
  /// The machine of each rank, as text, such as "0 0 1 1". A saved state has it.
  const std::string& hosts() const { return hosts_; }

 private:
  Communicator& all_;
  std::string hosts_;
  std::unique_ptr<Communicator> within_;
  std::unique_ptr<Communicator> between_;
};

/// The seed with which a local rank's slice draws; the first one has the step's own. Slices of one tensor have the same
/// number, so with the same seed they would be rounded by the same draws.
std::uint64_t seed_of_slice(std::uint64_t seed, int local_rank);

/// Makes a gradient method on two levels. StepReport::traffic is then what leaves the machine, StepReport::within what
/// stays in it. A saved state fits the same machines only, and resize throws InvalidConfig. Where tensors are cut
/// depends on the tensors and on the number of ranks per machine (docs/two-levels.md). Collective.
std::unique_ptr<GradientMethod> make_method(std::string_view name, const MethodOptions& options, TwoLevels& levels,
                                            Place& place);

/// The same, lifted with the optimizer. Throws InvalidConfig for a model method.
std::unique_ptr<ModelMethod> make_model_method(std::string_view name, const MethodOptions& options,
                                               const OptimizerOptions& optimizer, TwoLevels& levels, Place& place);

}  // namespace laconic
