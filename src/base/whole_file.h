#pragma once

#include <string>
#include <utility>

#include "laconic/error.h"
#include "laconic/view.h"

namespace laconic {

/// A file or folder that the system does not let us write. `reason` is its errno, 0 if unknown.
class FileError : public Error {
 public:
  FileError(const std::string& message, std::string path, int reason)
      : Error(message), path_(std::move(path)), reason_(reason) {}

  const std::string& path() const { return path_; }
  int reason() const { return reason_; }

 private:
  std::string path_;
  int reason_;
};

/// Whether the path is a device, a pipe or a link, such as /dev/stdout, which a rename would replace by a file.
bool is_written_through(const std::string& path);

/// Throws an Error with the reason if write_whole_file could not create a file beside `path`.
void require_room_beside(const std::string& path);

/// Throws an Error with the reason if write_whole_file could not write `path`. Call it before hours of work.
void require_writable(const std::string& path);

/// Creates a folder beside `path` that only this user can enter, so that nobody can put a link where another program
/// will write. It is named like the files that write_whole_file creates. Throws Error if it cannot be created.
std::string make_folder_beside(const std::string& path);

/// Writes a file beside `path`, syncs it to the disk and renames it. A reader of `path` finds either the old file or
/// the complete new one, even after a power cut. The file beside it has a random name and must not exist before, so
/// that a prepared link is never followed. A path that is not a plain file (is_written_through) is written directly and
/// stays what it is. Throws FileError if it cannot write.
void write_whole_file(const std::string& path, View<const std::byte> bytes);
void write_whole_file(const std::string& path, const std::string& text);

/// Syncs the names in a folder to the disk, if its file system can do that.
void sync_folder(const std::string& path);

/// Removes the partial files and folders that killed writers of `path` have left beside it. Call it only while nobody
/// writes `path`.
void remove_cut_writes(const std::string& path);

}  // namespace laconic
