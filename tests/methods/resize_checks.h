#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "laconic/communicator.h"
#include "laconic/place.h"
#include "methods/harness.h"
#include "methods/trace.h"

namespace laconic::test {

// Ranks come and go in a method: afterwards all ranks count alike and share the same bits.

/// A row with settings under which a method remembers or counts something.
struct ResizedMethod {
  std::string name;
  const MethodRow* row;
  MethodOptions options;
  OptimizerOptions optimizer;
  std::uint64_t chunk_entries = 0;  ///< 0: the usual, one chunk of the small model
};
inline void PrintTo(const ResizedMethod& method, std::ostream* out) { *out << method.name; }
/// Every row, and further settings of some.
std::vector<ResizedMethod> resized_methods();

/// One of the ranks of two groups, the one before a change and the one after it.
struct ChangingRank {
  Communicator& everyone;
  Communicator* before;  ///< null for a newcomer
  Communicator* after;   ///< null for a rank that leaves
};

/// Calls `body` on each rank of two groups of these sizes, in a thread of its own. The first of all threads is the one
/// that comes or goes, so the others' ranks are numbered anew. `copying` is that of run_ranks.
void run_changing_ranks(int before, int after, const std::function<void(const ChangingRank&)>& body,
                        const std::shared_ptr<Place>& copying = nullptr);

/// Steps before and after the change, with the model and the memory in a place. Notes what this rank sees. Collective.
void check_resize(const ResizedMethod& resized, const ChangingRank& rank, Place& place, Trace& trace);

}  // namespace laconic::test
