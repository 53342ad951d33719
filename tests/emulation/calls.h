#pragma once

namespace laconic::emulation {

/// What a thread has asked of the device so far. A GPU starts each launch and copy apart, and each wait stops the CPU
/// until all before it is done, so a step with few of them is a fast one.
struct Calls {
  unsigned launches = 0;  ///< of kernels
  unsigned copies = 0;    ///< copies and fillings of memory
  unsigned waits = 0;
  unsigned allocations = 0;  ///< of device memory and of pinned memory
};

Calls& calls_of_thread();

}  // namespace laconic::emulation
