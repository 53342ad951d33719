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

/// How a step ended, for its waiting deliveries.
enum class Outcome : std::uint8_t {
  counted,    ///< the parts hold the aggregate
  skipped,    ///< a value was not finite: the parts are zero
  abandoned,  ///< as skipped, because a rank abandoned the step
};

/// Some tensors of a step, and the caller that waits for their aggregate. All calls come from the host's thread.
class Delivery {
 public:
  virtual ~Delivery() = default;
  /// Comes before open: by parameter, 1 if its part must be float32, because an aggregate is added to it.
  virtual void note_carried(std::span<const std::uint32_t> /*carried*/) {}
  /// The parts in the form that the methods use, valid until close. A part that this rank did not use is float32.
  virtual std::span<const TensorPart> open() = 0;
  /// The parts that this rank did not use in the step.
  virtual std::span<const std::uint32_t> unused() const { return {}; }
  /// Parameters of this step that got a further gradient after their part was delivered.
  virtual std::span<const std::uint32_t> late() const { return {}; }
  /// Whether this rank drops the step, so that all ranks do.
  virtual bool abandons() const { return false; }
  /// Whether it is the last delivery of this step. If parameters are missing after it, the step fails.
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
  double convert_seconds = 0.0;  ///< time of opening and closing deliveries in all steps
  double busy_seconds = 0.0;     ///< time of the host's thread without its waits for deliveries
  double method_seconds = 0.0;   ///< the part of busy_seconds inside the methods
};

/// Drives gradient methods for a host whose tensors arrive in deliveries, on any thread. Its own thread does all the
/// work and all the waiting. `submit` only queues, so it may be called where nothing may block. A step begins with its
/// first delivery and ends when every parameter has arrived; all its deliveries are closed together. An error is passed
/// to every delivery of its step, to every later call, and to the other ranks through the communicator's fail(). Only a
/// non-finite value and OtherParameters, which all ranks meet alike, leave the host usable. In a fork of the process
/// every call throws InvalidConfig, and the host must not be destroyed.
class GradientHost {
 public:
  /// Collective. From then on only the host's thread uses the communicator and the place.
  /// `scaled`: a step that is not finite is skipped under either policy; the deliveries report it to their caller.
  /// `shards`: as for MethodSet.
  GradientHost(std::shared_ptr<Communicator> communicator, std::unique_ptr<Place> place, std::vector<Tensor> parameters,
               std::vector<MethodGroup> groups, const MethodSetOptions& options, bool scaled = false,
               std::shared_ptr<Communicator> shards = nullptr);
  ~GradientHost();
  GradientHost(const GradientHost&) = delete;
  GradientHost& operator=(const GradientHost&) = delete;

  /// Never waits.
  void submit(std::unique_ptr<Delivery> delivery);

  // Call these between steps. They wait for the thread, and throw InvalidConfig within a step.
  HostMetrics metrics();
  State save();
  void load(View<const std::byte> saved, const std::string& refusal = {});

  /// Releases the thread, the methods and their groups; later calls throw InvalidConfig. Within a step, the other ranks
  /// and all waiting deliveries get an error. May be called any number of times, from any thread.
  void close();

  const std::vector<Neighbours>& neighbours() const { return neighbours_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  using Task = std::function<void()>;

  void run();
  void take(Delivery& newest);
  void finish();
  std::vector<std::unique_ptr<Delivery>> take_open();
  void drop_step(std::exception_ptr error);
  void fail(std::exception_ptr error);
  void tell_others(const std::string& reason);
  void on_thread(const char* call, const Task& task);
  std::exception_ptr refusal_in_fork() const;
  bool wait_for_work(std::unique_lock<std::mutex>& lock);

  OwnProcess process_;
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<Communicator> shards_;
  std::unique_ptr<Place> place_;
  std::unique_ptr<MethodSet> methods_;
  std::vector<Neighbours> neighbours_;
  bool scaled_;
  int rank_;
  int ranks_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Delivery>> deliveries_;
  std::deque<Task*> tasks_;
  bool stopping_ = false;
  /// The deliveries of the open step; none between steps. Only the thread changes it, with the lock.
  std::vector<std::unique_ptr<Delivery>> open_deliveries_;
  std::exception_ptr failure_;

  HostMetrics metrics_;  ///< used only by the thread
  std::thread thread_;
  std::mutex closing_;
};

}  // namespace laconic::plugin
