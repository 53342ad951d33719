#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "torch/plugin/method_set.h"
#include "torch/plugin/own_process.h"

namespace laconic::plugin {

/// How a step ended, for those who wait for it.
enum class Outcome : std::uint8_t {
  counted,  ///< the parts hold the aggregate
  skipped,  ///< a value was not finite: the parts are zero
};

/// Some tensors of a step, with whoever waits for their aggregate. All calls come from the host's thread.
class Piece {
 public:
  virtual ~Piece() = default;
  /// The parts as the methods work on them, valid until close.
  virtual std::span<const TensorPart> open() = 0;
  /// Those of the parts that this rank did not use in the step.
  virtual std::span<const std::uint32_t> unused() const { return {}; }
  /// After it no other piece of this step comes; if parameters are missing then, the step fails.
  virtual bool last() const { return false; }
  virtual void close(Outcome outcome) = 0;
  virtual void fail(std::exception_ptr error) noexcept = 0;
};

struct HostMetrics {
  SetMetrics last;
  SetMetrics total;
  std::uint64_t steps = 0;
  std::uint64_t skipped = 0;
  double residual_norm = 0.0;
  double convert_seconds = 0.0;  ///< opening and closing pieces, all steps
  double busy_seconds = 0.0;     ///< of the host's thread, without its waits for pieces
  double method_seconds = 0.0;   ///< of these, inside the methods
};

/// Drives gradient methods for a host whose tensors arrive in pieces, on any thread. One thread of its own does all the
/// work and all the waiting: `submit` only queues, so that it may be called where nothing must wait. A step begins with
/// its first piece and ends when every parameter is there; all its pieces are closed together. An error reaches every
/// piece of its step and every later call, and the other ranks by the communicator's fail(); only a non-finite value,
/// which all ranks meet alike, leaves the host as it was. In a fork of the process every call is an InvalidConfig, and
/// the host must not be destroyed.
class GradientHost {
 public:
  /// Collective. The communicator and the place are used by the host's thread alone from then on.
  /// `scaled`: a step that is not finite is skipped, whatever the policy; the caller of the pieces tells it.
  GradientHost(std::shared_ptr<Communicator> communicator, int threads, std::vector<Tensor> parameters,
               std::vector<MethodGroup> groups, const MethodSetOptions& options, bool scaled = false);
  ~GradientHost();
  GradientHost(const GradientHost&) = delete;
  GradientHost& operator=(const GradientHost&) = delete;

  /// Never waits.
  void submit(std::unique_ptr<Piece> piece);

  // Between steps; they wait for the thread. InvalidConfig in the middle of one.
  HostMetrics metrics();
  State save();
  void load(View<const std::byte> saved, const std::string& refusal = {});

  /// Ends the thread, the methods and their groups; later calls are InvalidConfig. In the middle of a step the other
  /// ranks are told, and whoever waits for a piece. Any number of times, from any thread.
  void close();

  const std::vector<Neighbours>& neighbours() const { return neighbours_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  using Task = std::function<void()>;

  void run();
  void take(std::unique_ptr<Piece> piece);
  void finish();
  void fail(std::exception_ptr error);
  void on_thread(const char* call, const Task& task);
  std::exception_ptr refusal_in_fork() const;
  bool wait_for_work(std::unique_lock<std::mutex>& lock);

  OwnProcess process_;
  std::shared_ptr<Communicator> communicator_;
  std::unique_ptr<Place> place_;
  std::unique_ptr<MethodSet> methods_;
  std::vector<Neighbours> neighbours_;
  bool scaled_;
  int rank_;
  int ranks_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Piece>> pieces_;
  std::deque<Task*> tasks_;
  bool stopping_ = false;
  bool in_step_ = false;  ///< some piece of a step is there, but not the end
  std::exception_ptr failure_;

  // The thread's own.
  std::vector<std::unique_ptr<Piece>> open_pieces_;
  HostMetrics metrics_;
  std::thread thread_;
  std::mutex closing_;
};

}  // namespace laconic::plugin
