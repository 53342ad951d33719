#include "transport/mpi/operation.h"

#include <thread>

#include "laconic/error.h"
#include "laconic/mpi.h"

namespace laconic::mpi {
namespace {

/// How long a failed run looks for the end of what it has taken back.
constexpr Milliseconds kCancelTime{100};

}  // namespace

std::string MpiOperation::name() const { return describe(call_) + " (operation " + std::to_string(sequence_) + ")"; }

void MpiOperation::reset(const Call& call, std::uint64_t sequence, Milliseconds patience) {
  call_ = call;
  call_.send_ranges = {};
  call_.receive_ranges = {};
  sequence_ = sequence;
  patience_ = patience;
  requests_.clear();
  ended_ = 0;
  receives_ = 0;
  timeout_.clear();
}

MPI_Request* MpiOperation::add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

MPI_Request* MpiOperation::add_receive() {
  receives_ = requests_.size() + 1;
  return add();
}

void MpiOperation::require(int code) const {
  if (code != MPI_SUCCESS) require_success(code, name());
}

/// Whether all requests have ended. Under the lock. Looks before it lets MPI free them: OpenMPI reports what went wrong
/// in a nonblocking collective to the error handler of MPI_COMM_WORLD, which ends the program, unless one asks this
/// way.
bool MpiOperation::finish() {
  for (; ended_ < requests_.size(); ++ended_) {
    int done = 0;
    MPI_Status status;
    status.MPI_ERROR = MPI_SUCCESS;
    require(MPI_Request_get_status(requests_[ended_], &done, &status));
    if (done == 0) return false;
    require(status.MPI_ERROR);
  }
  if (requests_.empty()) return true;
  require(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE));
  requests_.clear();
  world_.operation_ended();
  return true;
}

bool MpiOperation::test() {
  {
    std::lock_guard lock(mpi_mutex());
    if (finish()) return true;
    world_.look();
  }
  if (world_.failed()) world_.throw_if_failed(name());
  return false;
}

void MpiOperation::wait(Milliseconds timeout) {
  {
    std::lock_guard lock(mpi_mutex());
    if (finish()) return;
  }
  const bool done = world_.poll_with_roll_call(
      timeout, [this] { return name(); }, [this] { return finish(); });
  if (done) return;
  try {
    world_.throw_timeout(name(), timeout);
  } catch (const TransportError& error) {
    timeout_ = error.what();
    throw;
  }
}

/// Takes receives back and looks for the end of the rest; true if nothing is left in MPI's hands.
bool MpiOperation::cancel_receives() {
  {
    std::lock_guard lock(mpi_mutex());
    for (std::size_t i = 0; i < receives_; ++i) {
      if (requests_[i] != MPI_REQUEST_NULL) MPI_Cancel(&requests_[i]);
    }
  }
  const auto deadline = deadline_after(kCancelTime);
  do {
    {
      std::lock_guard lock(mpi_mutex());
      if (finish()) return true;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  } while (Clock::now() < deadline);
  return false;
}

void MpiOperation::release() noexcept {
  bool clean = requests_.empty();
  try {
    if (!clean && timeout_.empty() && !world_.failed()) {
      clean = world_.poll(
          deadline_after(patience_), [this] { return name(); }, [this] { return finish(); });
    }
  } catch (...) {
    // A rank has failed: what follows takes back what can be taken back.
  }
  try {
    if (!clean) {
      world_.fail(timeout_.empty() ? "it withdrew from " + name() : timeout_);
      clean = cancel_receives();
    }
  } catch (...) {
    clean = false;
  }
  std::lock_guard lock(mpi_mutex());
  if (clean) pool_.give_back(*this);
}

}  // namespace laconic::mpi
