#include "experiment/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/whole_file.h"
#include "experiment/together.h"
#include "laconic/error.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKept = 2;
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kReplaced = ".replaced.partial";
// What a file says of itself.
constexpr const char* kRank = "checkpoint/rank";
constexpr const char* kRanks = "checkpoint/ranks";
constexpr const char* kStep = "checkpoint/step";

std::string checkpoint_name(std::uint32_t step) {
  char text[32];
  std::snprintf(text, sizeof text, "step-%010u", step);
  return text;
}

std::string rank_file(const std::string& checkpoint, int rank) {
  return checkpoint + "/rank-" + std::to_string(rank) + ".state";
}

void require_made(const std::error_code& failed, const std::string& what) {
  if (failed) throw Error("checkpoint: cannot " + what + ": " + failed.message());
}

/// What follows "step-0000000120" in the name of a folder that is one of ours; nothing for others.
std::optional<std::string> name_end(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::size_t length = checkpoint_name(0).size();
  if (!name.starts_with(kPrefix) || name.size() < length) return std::nullopt;
  if (name.find_first_not_of("0123456789", kPrefix.size()) < length) return std::nullopt;
  return name.substr(length);
}

/// Others may have folders of such a name as well: ours has a file of a rank in it.
bool is_checkpoint(const fs::path& path) {
  std::error_code ignored;
  if (name_end(path) != "" || !fs::is_directory(path, ignored)) return false;
  for (const auto& entry : fs::directory_iterator(path, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".state")) return true;
  }
  return false;
}

/// Removes what is left of writes that were cut, and all checkpoints but the newest.
void tidy(const std::string& folder, std::size_t kept) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const auto end = name_end(entry.path());
    if (end == kPartial || end == kReplaced) fs::remove_all(entry.path(), ignored);
  }
  const auto all = find_checkpoints(folder);
  for (std::size_t i = kept; i < all.size(); ++i) fs::remove_all(all[i], ignored);
}

/// A folder that was not there before, so that no link that lies in wait is written into.
void make_new_folder(const fs::path& path) {
  std::error_code failed;
  fs::remove_all(path, failed);
  fs::create_directories(path.parent_path(), failed);
  if (!failed && !fs::create_directory(path, failed) && !failed) failed = std::make_error_code(std::errc::file_exists);
  require_made(failed, "make the folder " + path.string());
}

/// An earlier one of that name gives it up first: a folder that is half removed is not whole. As a rule there is none.
void rename_onto(const std::string& partial, const std::string& whole) {
  const std::string replaced = whole + std::string(kReplaced);
  std::error_code ignored;
  std::error_code failed;
  if (fs::exists(whole, ignored) && !is_checkpoint(whole)) {
    throw Error("checkpoint: " + whole + " exists and is not a checkpoint: move it elsewhere");
  }
  fs::remove_all(replaced, ignored);
  fs::rename(whole, replaced, ignored);
  fs::rename(partial, whole, failed);
  if (failed) fs::rename(replaced, whole, ignored);
  require_made(failed, "rename " + partial);
}

}  // namespace

void write_checkpoint(const std::string& folder, std::uint32_t step, State state, Communicator& communicator) {
  state.put(kRank, static_cast<double>(communicator.rank()));
  state.put(kRanks, static_cast<double>(communicator.size()));
  state.put(kStep, static_cast<double>(step));
  const std::string whole = folder + "/" + checkpoint_name(step);
  const std::string partial = whole + std::string(kPartial);
  try {
    if (communicator.rank() == 0) make_new_folder(partial);
    communicator.barrier().wait();
    // No rank writes any more when the folder is renamed, or removed.
    succeed_together(communicator, [&] { write_whole_file(rank_file(partial, communicator.rank()), state.to_bytes()); });
    if (communicator.rank() == 0) {
      rename_onto(partial, whole);
      sync_folder(folder);
      tidy(folder, kKept);
    }
    communicator.barrier().wait();
  } catch (const std::exception& error) {
    // A rank that fails tells the others, so rank 0 comes here whoever it was.
    communicator.fail(error.what());
    std::error_code ignored;
    if (communicator.rank() == 0) fs::remove_all(partial, ignored);
    throw;
  }
}

namespace {

[[noreturn]] void refuse(const std::string& checkpoint, int rank, const std::string& why) {
  throw Error("checkpoint: " + rank_file(checkpoint, rank) + " is " + why);
}

std::string whole(double number) { return std::to_string(static_cast<std::uint64_t>(number)); }

State read_state(const std::string& checkpoint, int rank) {
  const std::string path = rank_file(checkpoint, rank);
  std::error_code ignored;
  std::ifstream input(path, std::ios::binary | std::ios::ate);
  if (!input || !fs::is_regular_file(path, ignored)) throw Error("checkpoint: cannot read " + path);
  std::vector<std::byte> bytes(static_cast<std::size_t>(input.tellg()));
  input.seekg(0);
  input.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!input) throw Error("checkpoint: cannot read all of " + path);
  State state;
  try {
    state = State::from_bytes(bytes);
  } catch (const InvalidConfig& error) {
    throw InvalidConfig("checkpoint: " + path + ": " + error.what());
  } catch (const Error& error) {
    refuse(checkpoint, rank, std::string("damaged: ") + error.what());
  }
  if (state.has(kRank) && state.number(kRank) != rank) {
    refuse(checkpoint, rank, "the file of rank " + whole(state.number(kRank)));
  }
  return state;
}

void require_together(const std::string& checkpoint, int ranks) {
  double step = 0.0;
  for (int rank = 0; rank < ranks; ++rank) {
    const State state = read_state(checkpoint, rank);
    if (!state.has(kStep)) continue;  // of a program that did not say
    if (rank == 0) step = state.number(kStep);
    if (state.number(kStep) != step) {
      refuse(checkpoint, rank, "of step " + whole(state.number(kStep)) + ", rank 0's of step " + whole(step));
    }
    if (state.number(kRanks) != ranks) {
      throw InvalidConfig(checkpoint + " was written by " + whole(state.number(kRanks)) + " ranks, this run has " +
                          std::to_string(ranks) + ": start the same number of ranks");
    }
  }
}

/// What `read` returns; where it refuses the checkpoint, its words and the newest one before that it does not refuse.
template <class Read>
auto read_or_offer(const std::string& checkpoint, Read&& read) {
  try {
    return read(checkpoint);
  } catch (const InvalidConfig&) {
    throw;
  } catch (const Error& error) {
    const fs::path path = fs::path(checkpoint).lexically_normal();
    for (const std::string& other : find_checkpoints(path.parent_path().string())) {
      if (fs::path(other).filename() >= path.filename()) continue;
      try {
        read(other);
      } catch (const Error&) {
        continue;
      }
      throw Error(error.what() + ("; the one before it is " + other));
    }
    throw Error(std::string(error.what()) + "; there is no complete checkpoint before it: start a new run");
  }
}

}  // namespace

State read_checkpoint(const std::string& checkpoint, int rank) {
  return read_or_offer(checkpoint, [&](const std::string& each) { return read_state(each, rank); });
}

void require_sound_checkpoint(const std::string& checkpoint, int ranks) {
  std::error_code ignored;
  if (!fs::is_directory(checkpoint, ignored)) throw Error("checkpoint: there is no folder " + checkpoint);
  int files = 0;
  while (fs::exists(rank_file(checkpoint, files), ignored)) ++files;
  if (files > ranks) {
    throw InvalidConfig(checkpoint + " was written by " + std::to_string(files) + " or more ranks, this run has " +
                        std::to_string(ranks) + ": start the same number of ranks");
  }
  read_or_offer(checkpoint, [&](const std::string& each) { require_together(each, ranks); });
}

std::vector<std::string> find_checkpoints(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (is_checkpoint(entry.path())) found.push_back(entry.path().string());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

void remove_checkpoints(const std::string& folder) { tidy(folder, 0); }

}  // namespace laconic
