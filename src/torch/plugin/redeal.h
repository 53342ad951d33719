#pragma once

#include <functional>
#include <span>

#include "laconic/method.h"
#include "laconic/place.h"

namespace laconic::plugin {

using MethodMaker = std::function<std::unique_ptr<Method>(Communicator&, Place&)>;

/// For a run that continues with another number of ranks. `saved` has the method's memory of each old rank. The result
/// is the memory of rank `rank` of `ranks` after a resize (Method::resize), which keeps the mean of the residuals. The
/// resize runs in threads of this process, one for each old or new rank, so all ranks that call it get matching parts.
/// `model`, if it is not empty, holds the point where this rank was and receives the point at which a model method
/// continues.
State redealt(std::span<const State> saved, int rank, int ranks, std::span<const Tensor> tensors,
              const MethodMaker& make, View<float> model = {});

}  // namespace laconic::plugin
