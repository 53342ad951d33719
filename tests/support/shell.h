#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace laconic::test {

struct Outcome {
  int code = -1;
  std::string text;
};

/// Runs a shell command with its errors among its output.
inline Outcome shell(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) outcome.text += buffer;
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  return outcome;
}

}  // namespace laconic::test
