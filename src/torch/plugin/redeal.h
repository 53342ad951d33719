#pragma once

#include <functional>
#include <span>

#include "laconic/method.h"
#include "laconic/place.h"

namespace laconic::plugin {

using MethodMaker = std::function<std::unique_ptr<Method>(Communicator&, Place&)>;

/// A run that goes on with another number of ranks. `saved` has a method's memory on each rank that there was; the
/// result is what rank `rank` of `ranks` has after these had resized (Method::resize): the mean of what is owed is
/// kept. The resize happens in threads of this process, one for each rank that was or will be, so that every rank which
/// asks gets its part of the same whole. `model`, if it is not empty, ends as the point where a model method goes on.
State redealt(std::span<const State> saved, int rank, int ranks, std::span<const Tensor> tensors,
              const MethodMaker& make, View<float> model = {});

}  // namespace laconic::plugin
