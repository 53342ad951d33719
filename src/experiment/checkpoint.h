#pragma once

#include <string>
#include <vector>

#include "laconic/communicator.h"
#include "laconic/method.h"

// A checkpoint is a folder "step-0000000120" with one file per rank. It is first written as "step-0000000120.partial"
// and renamed when every rank has written its file, so a folder without ".partial" is complete. The newest two are
// kept.

namespace laconic {

/// Where a run writes its checkpoints, and the checkpoint from which it continues.
struct CheckpointPlan {
  std::string folder{};      ///< shared by all ranks; empty: no checkpoints are written
  std::string resume{};      ///< the checkpoint from which the run continues; empty: it begins at the start
  std::string model_file{};  ///< where the tested model is written at the end, for other programs to read
};

/// Collective. Throws Error on the rank that cannot write. Besides the state, each file contains its rank, the number
/// of ranks and the step.
void write_checkpoint(const std::string& folder, std::uint32_t step, State state, Communicator& communicator);

/// This rank's state. Throws an Error that names the file, the fault (a file of another rank is one) and the newest
/// earlier checkpoint that is complete. Throws InvalidConfig for a checkpoint of an earlier version.
State read_checkpoint(const std::string& checkpoint, int rank);

/// Reads the files of all ranks, so that one rank can check the checkpoint for all. Throws the same errors, also if the
/// files are of different steps, and InvalidConfig if it was written by another number of ranks.
void require_sound_checkpoint(const std::string& checkpoint, int ranks);

/// The complete checkpoints, the newest first. Other folders are ignored.
std::vector<std::string> find_checkpoints(const std::string& folder);

/// Removes a run's checkpoints, including partial ones, and nothing else in the folder.
void remove_checkpoints(const std::string& folder);

}  // namespace laconic
