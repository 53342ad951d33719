#pragma once

#include <string>

namespace laconic {

/// Keeps a second process from writing into a run's folder. The lock belongs to an open file, ".lock" in the folder, so
/// it ends with the process, however the process ends, and a file that a killed process left behind locks nothing. The
/// file contains the process's id and machine, which the second process shows in its message.
///
/// On a file system without locks it keeps nobody out. NFS forwards locks to its server, but only between machines that
/// mount it with locks.
class FolderLock {
 public:
  /// The folder must exist. Throws an Error that names the process which holds the lock.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace laconic
