#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

// The program under mpirun, as a job that can be watched, hurt and waited for.

namespace laconic::test {

/// Looks again and again until it is true; false after a minute, which no machine should need.
bool eventually(const std::function<bool()>& condition);

/// mpirun with `ranks` processes of the program. Nothing of it is left when it is destroyed, and mpirun ends with the
/// test program, however that ends.
class MpiJob {
 public:
  /// `arguments` are words of a shell. What the job says goes to the file `output`.
  MpiJob(int ranks, const std::string& arguments, std::string output);
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;

  /// False after mpirun has ended, whatever was said.
  bool running();
  /// Sends a signal to one rank's process, once all are there; false if they never were.
  bool signal(int rank, int number);
  /// Until mpirun ends: its exit code, 128 + the signal that ended it, or -1 where it does not end within a minute.
  int wait();
  /// Whether every process that was once a rank is gone.
  bool ranks_are_gone() const;
  std::string said() const;

 private:
  bool find_ranks();

  std::string output_;
  pid_t mpirun_ = -1;
  int code_ = -1;
  bool ended_ = false;
  std::vector<pid_t> ranks_;  ///< by rank; 0 where it has not been seen
};

}  // namespace laconic::test
