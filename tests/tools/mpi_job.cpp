#include "tools/mpi_job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>

#include "support/text_of_file.h"

namespace laconic::test {
namespace {

namespace fs = std::filesystem;

/// State and parent of a process; state 'X' where there is none.
struct ProcessState {
  char state = 'X';
  pid_t parent = -1;
};

ProcessState state_of(const std::string& process) {
  const std::string text = text_of_file("/proc/" + process + "/stat");
  const std::size_t name_end = text.rfind(')');  // the name may hold anything
  ProcessState result;
  if (name_end == std::string::npos) return result;
  std::istringstream rest(text.substr(name_end + 1));
  rest >> result.state >> result.parent;
  return result;
}

/// A zombie has ended; somebody has yet to ask for its exit code.
bool is_gone(pid_t process) {
  const char state = state_of(std::to_string(process)).state;
  return state == 'X' || state == 'Z';
}

/// The rank that mpirun told a process, or -1.
int rank_of(const std::string& process) {
  std::istringstream environment(text_of_file("/proc/" + process + "/environ"));
  const std::string key = "OMPI_COMM_WORLD_RANK=";
  for (std::string entry; std::getline(environment, entry, '\0');) {
    if (entry.starts_with(key)) return std::atoi(entry.c_str() + key.size());
  }
  return -1;
}

/// In the child: never returns.
void become_mpirun(const std::string& command, const std::string& output, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // mpirun then ends its processes, stopped ones too
  if (getppid() != parent) _exit(127);
  const int in = open("/dev/null", O_RDONLY);
  const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
  _exit(127);
}

}  // namespace

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

MpiJob::MpiJob(int ranks, const std::string& arguments, std::string output)
    : output_(std::move(output)), ranks_(static_cast<std::size_t>(ranks), 0) {
  const std::string command = "exec env ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=1 '" LACONIC_MPIEXEC
                              "' --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 -n " +
                              std::to_string(ranks) + " '" LACONIC_PROGRAM "' " + arguments;
  const pid_t self = getpid();
  mpirun_ = fork();
  if (mpirun_ == 0) become_mpirun(command, output_, self);
}

MpiJob::~MpiJob() {
  if (!running()) return;
  find_ranks();
  kill(mpirun_, SIGTERM);
  if (eventually([this] { return !running(); })) return;
  for (const pid_t process : ranks_) {
    if (process > 0) kill(process, SIGKILL);
  }
  kill(mpirun_, SIGKILL);
  waitpid(mpirun_, nullptr, 0);
}

bool MpiJob::running() {
  if (ended_ || mpirun_ <= 0) return false;
  int status = 0;
  if (waitpid(mpirun_, &status, WNOHANG) != mpirun_) return true;
  ended_ = true;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return false;
}

bool MpiJob::find_ranks() {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string process = entry.path().filename().string();
    if (process.front() < '0' || process.front() > '9' || state_of(process).parent != mpirun_) continue;
    const int rank = rank_of(process);
    if (rank >= 0 && rank < static_cast<int>(ranks_.size())) {
      ranks_[static_cast<std::size_t>(rank)] = static_cast<pid_t>(std::stol(process));
    }
  }
  return std::count(ranks_.begin(), ranks_.end(), 0) == 0;
}

bool MpiJob::signal(int rank, int number) {
  if (!eventually([this] { return find_ranks() || !running(); }) || !running()) return false;
  return kill(ranks_[static_cast<std::size_t>(rank)], number) == 0;
}

int MpiJob::wait() {
  return eventually([this] { return !running(); }) ? code_ : -1;
}

bool MpiJob::ranks_are_gone() const { return std::all_of(ranks_.begin(), ranks_.end(), is_gone); }

std::string MpiJob::said() const { return text_of_file(output_); }

}  // namespace laconic::test
