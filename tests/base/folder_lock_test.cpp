// One process at a time writes into a run's folder, whatever became of the one before.

#include "base/folder_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "laconic/error.h"
#include "support/support.h"
#include "support/temporary_folder.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::message_of;

class Locked : public testing::Test {
 protected:
  std::string refusal() const {
    return message_of<Error>([&] { const FolderLock lock(folder); });
  }
  test::TemporaryFolder own;
  std::string folder = own.path();
};

TEST_F(Locked, FolderIsRefusedWithTheProcess) {
  std::optional<FolderLock> first;
  first.emplace(folder);
  const std::string text = refusal();
  EXPECT_TRUE(contains(text, folder) && contains(text, "process " + std::to_string(getpid()) + " on ")) << text;
  first.reset();
  EXPECT_TRUE(fs::is_empty(folder)) << "a lock's file stays behind";
  EXPECT_NO_THROW(const FolderLock again(folder));
}

TEST_F(Locked, FileThatWasLeftBehindLocksNothing) {
  std::ofstream(folder + "/.laconic.lock") << "1 on another\n";
  const FolderLock lock(folder);
  EXPECT_TRUE(contains(refusal(), "process " + std::to_string(getpid()) + " on ")) << refusal();
}

TEST_F(Locked, FolderIsFreeWhenItsProcessIsKilled) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FolderLock lock(folder);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const std::string text = refusal();
  EXPECT_TRUE(contains(text, "process " + std::to_string(child) + " on ")) << text;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_NO_THROW(const FolderLock lock(folder));
  close(ready[0]);
  close(ready[1]);
}

TEST_F(Locked, LinkInPlaceOfTheFileIsNotFollowed) {
  fs::create_symlink(folder + "/other", folder + "/.laconic.lock");
  EXPECT_TRUE(contains(refusal(), ".laconic.lock")) << refusal();
  EXPECT_FALSE(fs::exists(folder + "/other"));
}

}  // namespace
}  // namespace laconic
