#include "base/no_thread.h"

namespace laconic {

Error no_thread(const std::string& what, const std::string& settings, const std::exception& reason) {
  return Error(what + " (" + reason.what() + "): lower " + settings +
               ", or raise the limit of processes (ulimit -u, the pids limit of a container) or of memory (ulimit -v)");
}

}  // namespace laconic
