#include "support/limited.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <fstream>
#include <system_error>

namespace laconic::test {
namespace {

/// Of addresses that this process has now.
std::size_t bytes_in_use() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

[[noreturn]] void be_child(int out, std::size_t bytes, const std::function<std::string()>& body) {
  alarm(30);
  const rlimit limit{bytes_in_use() + bytes, RLIM_INFINITY};
  std::string text = "(the limit was refused)";
  if (setrlimit(RLIMIT_AS, &limit) == 0) {
    try {
      text = body();
    } catch (const std::exception& error) {
      text = std::string("(threw: ") + error.what() + ")";
    }
  }
  const bool whole = write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  _exit(whole ? 0 : 1);
}

}  // namespace

NoMoreThreads::NoMoreThreads() {
  getrlimit(RLIMIT_AS, &before_);
  const rlimit limit{bytes_in_use() + (std::size_t{256} << 20), before_.rlim_max};
  setrlimit(RLIMIT_AS, &limit);
  const std::shared_future<void> end = end_.get_future().share();
  try {
    for (;;) threads_.emplace_back([end] { end.wait(); });
  } catch (const std::system_error&) {
    // That was the last.
  }
}

NoMoreThreads::~NoMoreThreads() {
  setrlimit(RLIMIT_AS, &before_);
  end_.set_value();
  for (std::thread& thread : threads_) thread.join();
}

bool can_limit_memory() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return true;
#endif
}

std::string with_little_memory(std::size_t bytes, const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return "(no pipe)";
  const pid_t child = fork();
  if (child == 0) be_child(ends[1], bytes, body);
  close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t got = 0; (got = read(ends[0], part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) return text;
  return "(did not end: signal " + std::to_string(WTERMSIG(status)) + ") " + text;
}

}  // namespace laconic::test
