#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <memory>
#include <optional>

#include "torch/plugin/c10d/failure_watch.h"

namespace laconic::plugin {

/// Makes another group of the same ranks with the same engine. Collective.
using GroupMaker = std::function<c10::intrusive_ptr<c10d::ProcessGroup>()>;

/// The device of the tensors through which bytes are copied for the engine.
using StagingDevice = std::optional<at::Device>;

/// What a communicator and its duplicates share.
struct C10dWorld {
  c10::intrusive_ptr<c10d::Store> store;
  std::shared_ptr<FailureWatch> watch;
  GroupMaker make_group;
  StagingDevice staging;
  std::int64_t counters = 0;
};

}  // namespace laconic::plugin
