#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "torch/plugin/c10d/failure_watch.h"

namespace laconic::plugin {

/// Makes another group of the same ranks with the same engine. Collective.
using GroupMaker = std::function<c10::intrusive_ptr<c10d::ProcessGroup>()>;

/// Some of the ranks: where their groups and their own subgroups come from.
struct Subgroup {
  GroupMaker make_group;
  std::function<Subgroup(const std::vector<int>&)> make_subgroup;
};

/// Gets the ranks of a subgroup, ascending, this one among them.
using SubgroupMaker = std::function<Subgroup(const std::vector<int>&)>;

/// The device of the tensors through which bytes are copied for the engine.
using StagingDevice = std::optional<at::Device>;

/// What a communicator and its duplicates share. A subgroup has a world of its own, with the same watch.
struct C10dWorld {
  c10::intrusive_ptr<c10d::Store> store;
  std::shared_ptr<FailureWatch> watch;
  GroupMaker make_group;
  SubgroupMaker make_subgroup;  ///< empty: it cannot be split
  StagingDevice staging;
  std::int64_t counters = 0;
  std::int64_t subgroups = 0;
};

}  // namespace laconic::plugin
