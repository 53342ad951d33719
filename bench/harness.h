#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "laconic/place.h"
#include "laconic/view.h"

namespace laconic::bench {

struct KernelOptions {
  std::uint64_t n = 25'600'000;
  int threads = 0;             ///< 0: one a core
  int repeats = 15;            ///< timed runs of each, of which the median counts
  std::string filter;          ///< only kernels whose name contains it; several separated by commas
  bool compare_torch = true;   ///< where it was built in
  bool show_progress = false;  ///< a line on stderr that is written over
};

/// One kernel at one SIMD level: seconds against those of its stream in the same run, and against PyTorch.
struct KernelResult {
  std::string kernel;
  std::string implementation;
  std::uint64_t n = 0;
  int threads = 0;
  double seconds = 0.0;
  double stream_seconds = 0.0;
  double ratio = 0.0;
  std::optional<double> torch_seconds;
  std::optional<double> torch_ratio;  ///< how many times longer PyTorch takes
  std::string stream;                 ///< what the stream does
  int discarded = 0;                  ///< timed runs left out because the process did not have its cores
};

/// What the cases of one run share: sizes and inputs, made once.
class Inputs {
 public:
  Inputs(const KernelOptions& options, Place& place);

  std::uint64_t n() const { return gradient_.capacity(); }
  /// Whom a case may ask for what it needs beforehand, such as last step's threshold. Best level.
  Place& place() const { return place_; }
  /// Normal(0, 1), this step's and the one before; and a residual as error feedback leaves it.
  View<const float> gradient() const { return gradient_.view(); }
  View<const float> last_gradient() const { return last_gradient_.view(); }
  View<const float> residual() const { return residual_.view(); }

 private:
  Place& place_;
  Buffer<float> gradient_;
  Buffer<float> last_gradient_;
  Buffer<float> residual_;
};

/// One thing to measure. `run` must give the same bytes in `results` at every level; that is checked before it is
/// timed.
struct Case {
  std::function<void()> prepare;  ///< before each run, not timed
  std::function<void(Place&)> run;
  std::function<void(ThreadPool&)> stream;
  std::vector<View<const std::byte>> results;
  std::function<void()> torch;               ///< empty: nothing to compare with
  std::function<std::string()> torch_wrong;  ///< what is wrong with torch's result, or empty
  std::shared_ptr<void> owner;               ///< keeps the views alive
};

struct KernelEntry {
  const char* name;
  const char* stream;  ///< what the stream does, for the reader of the table
  Case (*make)(const Inputs& inputs);
};

/// All kernels that can be measured, in the order of the table.
const std::vector<KernelEntry>& kernel_table();

/// Checks and measures. Calls `found` after each kernel, so that a long run shows something. Error if a kernel's result
/// differs from the reference's, or if the filter matches nothing.
std::vector<KernelResult> bench_kernels(const KernelOptions& options,
                                        const std::function<void(const KernelResult&)>& found);

/// Fills a view with Normal(0, 1) values, a pure function of seed and index.
void fill_normal(ThreadPool& pool, std::uint64_t seed, View<float> values);

}  // namespace laconic::bench
