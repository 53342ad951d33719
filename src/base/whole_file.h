#pragma once

#include <string>

#include "laconic/view.h"

namespace laconic {

/// A device, a pipe or a link, such as /dev/stdout: a rename would put a file in its place.
bool is_written_through(const std::string& path);

/// Throws Error that says why not if write_whole_file could not make a file beside `path`.
void require_room_beside(const std::string& path);

/// Throws Error that says why not if write_whole_file could not write `path`. To be called before hours of work.
void require_writable(const std::string& path);

/// A new folder beside `path` for this user alone, so that nobody puts a link where another program will write. Its
/// name is as those of the files that write_whole_file makes. Error if it cannot be made.
std::string make_folder_beside(const std::string& path);

/// Writes beside, makes sure that it is on the disk, and renames: whoever reads `path` finds the old file or the whole
/// new one, after a power cut too. The file beside has a random name and is made anew, so that no link that lies in
/// wait is followed. What is there and is no plain file (is_written_through) stays what it is. Error that says why not.
void write_whole_file(const std::string& path, View<const std::byte> bytes);
void write_whole_file(const std::string& path, const std::string& text);

/// Makes sure that the names in a folder are on the disk, where its file system can.
void sync_folder(const std::string& path);

/// Removes what processes that were killed while they wrote `path`, a file or a folder, have left beside it. Only where
/// none is writing.
void remove_cut_writes(const std::string& path);

}  // namespace laconic
