#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "experiment/run.h"
#include "laconic/place.h"

// Where networks are trained: on the CPU, or on the first GPU, which all workers of a process share. This header does
// not include torch's.

namespace laconic {

/// Throws an InvalidConfig with the reason and the remedy if this build on this machine cannot train networks on the
/// device ("cpu" or "cuda"). For a GPU it tells torch to compute deterministically and without TF32 in this process.
void require_training_device(const std::string& device);

/// For records: "cpu", or the GPU's name and how it computes.
std::string training_device_text(const std::string& device);

/// A worker's place on the run's device. On a GPU it has its own stream. Calls require_training_device.
std::shared_ptr<Place> training_place(const RunConfig& config);

/// While it exists, torch's operators in this thread run on the place's stream, in one order with the place's kernels,
/// and backward() runs in the thread that calls it; torch would use one thread per GPU, which the workers would share.
/// On the CPU it does nothing. Create and destroy it in the same thread.
class TorchOnPlace {
 public:
  explicit TorchOnPlace(Place& place);
  ~TorchOnPlace();
  TorchOnPlace(const TorchOnPlace&) = delete;
  TorchOnPlace& operator=(const TorchOnPlace&) = delete;

 private:
  bool on_gpu_;
  std::int64_t stream_before_ = 0;  ///< torch's number of the stream that was current
  bool multithreading_before_ = true;
};

/// While it exists, torch's operators in this thread follow the run's precision: with bf16 those that gain from it round
/// their inputs to bfloat16. Around a forward pass and its loss; backward follows what the forward pass did.
class InPrecision {
 public:
  explicit InPrecision(const RunConfig& config);
  ~InPrecision();
  InPrecision(const InPrecision&) = delete;
  InPrecision& operator=(const InPrecision&) = delete;

 private:
  bool rounds_;
  bool on_gpu_;
};

}  // namespace laconic
