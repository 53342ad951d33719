#include "torch/plugin/own_process.h"

#include <unistd.h>

#include "laconic/error.h"

namespace laconic::plugin {

OwnProcess::OwnProcess() : id_(getpid()) {}

bool OwnProcess::is_this() const { return getpid() == id_; }

void OwnProcess::require(const char* call, const char* what) const {
  if (is_this()) return;
  throw InvalidConfig(std::string(call) + " of " + what + " in process " + std::to_string(getpid()) +
                      ", a fork of process " + std::to_string(id_) + " that made it: a fork has none of its threads " +
                      "and connections; call it in that process, or make a new one in this");
}

}  // namespace laconic::plugin
