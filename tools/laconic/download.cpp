#include "download.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>

#include "base/whole_file.h"
#include "data/md5.h"
#include "laconic/error.h"

extern char** environ;

namespace laconic::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUnpacked = "unpacked";  ///< the archive's files, until they are in place

std::string name_in(std::string_view url) { return std::string(url.substr(url.rfind('/') + 1)); }

/// A new folder beside a file, gone at the end whatever happens.
class FolderBeside {
 public:
  explicit FolderBeside(const fs::path& file) : path_(make_folder_beside(file.string())) {}
  ~FolderBeside() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  FolderBeside(const FolderBeside&) = delete;
  FolderBeside& operator=(const FolderBeside&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Empty, or why it could not be fetched.
std::string fetch(const std::string& url, const std::string& path) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const int curl = run_program({"curl", "--fail", "--location", "--retry", "2", "--connect-timeout", "20",
                                "--show-error", terminal ? "--progress-bar" : "--silent", "--output", path, url});
  if (curl == 0) return {};
  if (curl > 0) return "curl ended with " + std::to_string(curl);
  const int wget = run_program({"wget", terminal ? "--no-verbose" : "--quiet", "--tries=3", "--connect-timeout=20",
                                "--output-document", path, url});
  if (wget == 0) return {};
  return wget > 0 ? "wget ended with " + std::to_string(wget) : "there is neither curl nor wget here";
}

/// Empty, or what is wrong with the file.
std::string fault_of(const std::string& path, const Download& download) {
  std::error_code failed;
  const std::uintmax_t bytes = fs::file_size(path, failed);
  if (failed) return "nothing was written";
  if (download.bytes != 0 && bytes != download.bytes) {
    return "expected " + std::to_string(download.bytes) + " bytes, got " + std::to_string(bytes);
  }
  const std::string sum = md5_of_file(path);
  return sum == download.md5 ? "" : std::string("expected the MD5 sum ") + download.md5 + ", got " + sum;
}

void rename_into(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  fs::rename(from, to, failed);
  if (failed) throw Error("cannot write " + to.string() + ": " + failed.message());
}

/// Unpacks the archive's files beside it, leaving out the folder that they lie in, and moves those that the task reads
/// into place.
void unpack(const TaskRow& row, const fs::path& archive, const fs::path& folder) {
  const fs::path unpacked = archive.parent_path() / kUnpacked;
  fs::create_directories(unpacked);
  const int tar = run_program({"tar", "-xzf", archive.string(), "-C", unpacked.string(), "--strip-components=1"});
  if (tar != 0) {
    throw Error("cannot unpack " + archive.string() + ": " +
                (tar < 0 ? "there is no tar here" : "tar ended with " + std::to_string(tar)));
  }
  for (const TaskFile& file : row.files) rename_into(unpacked / file.name, folder / file.name);
}

bool is_here(const TaskRow& row, const std::string& data_folder, const Download& download) {
  const auto here = [&](std::string_view name) { return !find_task_file(row, data_folder, name).empty(); };
  if (download.archive) {
    for (const TaskFile& file : row.files) {
      if (!here(file.name)) return false;
    }
    return true;
  }
  const std::string name = name_in(download.url);
  return here(name) || (name.ends_with(".gz") && here(name.substr(0, name.size() - 3)));
}

/// What is odd about a file that is here under the publisher's name: it may be another data set's, or packed anew.
std::string doubt_about(const TaskRow& row, const std::string& data_folder, const Download& download) {
  const std::string name = name_in(download.url);
  const std::string path = download.archive ? "" : find_task_file(row, data_folder, name);
  if (!path.ends_with(name)) return "";
  const std::string fault = fault_of(path, download);
  return fault.empty() ? "" : ", but it is not the publisher's: " + fault;
}

void download_one(const TaskRow& row, const fs::path& folder, const Download& download) {
  const std::string name = name_in(download.url);
  // Hundreds of megabytes, where an earlier download was stopped.
  for (const std::string& left : {name, std::string(kUnpacked)}) remove_cut_writes((folder / left).string());
  const FolderBeside beside(folder / name);
  const fs::path fetched = beside.path() / name;
  std::string fault = fetch(download.url, fetched.string());
  if (fault.empty()) fault = fault_of(fetched.string(), download);
  if (!fault.empty()) {
    throw Error("cannot fetch " + std::string(download.url) + ": " + fault + "; the files can be put there by hand");
  }
  if (download.archive) {
    unpack(row, fetched, folder);
  } else {
    rename_into(fetched, folder / name);
  }
}

}  // namespace

int run_program(const std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, pointers[0], nullptr, nullptr, pointers.data(), environ) != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void download_task(const TaskRow& row, const std::string& data_folder,
                   const std::function<void(const std::string&)>& tell) {
  if (row.downloads.empty()) return;
  const fs::path folder = fs::path(data_folder) / row.folders.front();
  for (const Download& download : row.downloads) {
    if (is_here(row, data_folder, download)) {
      tell(name_in(download.url) + ": already here" + doubt_about(row, data_folder, download));
      continue;
    }
    std::error_code failed;
    fs::create_directories(folder, failed);
    if (failed) throw Error("cannot make the folder " + folder.string() + ": " + failed.message());
    tell(std::string(download.url));
    download_one(row, folder, download);
  }
}

std::string by_hand(const TaskRow& row, const std::string& data_folder) {
  const fs::path folder = fs::path(data_folder) / row.folders.front();
  std::string text;
  for (const Download& download : row.downloads) {
    if (is_here(row, data_folder, download)) continue;
    text.append("  ").append(download.url).append(" (MD5 ").append(download.md5).append(")\n");
    if (!download.archive) {
      text.append("    to ").append((folder / name_in(download.url)).string()).append("\n");
      continue;
    }
    text.append("    unpacked, so that there are\n");
    for (const TaskFile& file : row.files) text.append("    ").append((folder / file.name).string()).append("\n");
  }
  return text;
}

}  // namespace laconic::tools
