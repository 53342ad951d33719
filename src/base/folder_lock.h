#pragma once

#include <string>

namespace laconic {

/// Keeps a second process from writing into a run's folder. The lock belongs to an open file, ".lock" in the folder, so
/// it ends with the process, however that ends, and a file that a killed process left behind locks nothing. The file
/// holds the process's number and host, for the message of the one who comes second.
///
/// On a file system that knows no locks nobody is kept out. NFS passes locks on to its server, but only between hosts
/// that mount it with them.
class FolderLock {
 public:
  /// The folder must be there. Error naming the process that holds it.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace laconic
