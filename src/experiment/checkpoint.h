#pragma once

#include <string>
#include <vector>

#include "laconic/communicator.h"
#include "laconic/method.h"

// A checkpoint is a folder "step-0000000120" with a file a rank. It is written beside, as "step-0000000120.partial",
// and renamed when every rank has written, so a folder of that name is whole. The newest two are kept.

namespace laconic {

/// Where a run keeps its checkpoints, and where it goes on from.
struct CheckpointPlan {
  std::string folder{};      ///< shared by all ranks; empty: none is written
  std::string resume{};      ///< a checkpoint to go on from; empty: from the start
  std::string model_file{};  ///< where the tested model is written at the end, for other programs to read
};

/// Collective. Error on the rank that cannot write. Beside the state each file says whose it is: rank, ranks, step.
void write_checkpoint(const std::string& folder, std::uint32_t step, State state, Communicator& communicator);

/// This rank's state. Error naming the file, what is wrong with it (another rank's counts as wrong), and the newest
/// checkpoint before it that is whole. InvalidConfig for one of an earlier version.
State read_checkpoint(const std::string& checkpoint, int rank);

/// Reads every rank's file, for the one that tells: the same errors, also where files are of different steps, and
/// InvalidConfig where it was written by another number of ranks.
void require_sound_checkpoint(const std::string& checkpoint, int ranks);

/// The newest first, complete ones only; empty where there is none. Other folders, whatever they are, are left out.
std::vector<std::string> find_checkpoints(const std::string& folder);

/// Removes a run's checkpoints, those whose writing was cut too, and nothing else that is in the folder.
void remove_checkpoints(const std::string& folder);

}  // namespace laconic
