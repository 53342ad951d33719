// Files are written whole or not at all, whatever lies in their place.

#include "base/whole_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "laconic/error.h"
#include "support/support.h"
#include "support/temporary_folder.h"
#include "support/text_of_file.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::message_of;
using test::text_of_file;

class WholeFile : public test::InTemporaryFolder {};

// Renamed onto, /dev/null would be a file for everybody.
TEST_F(WholeFile, PipesAndLinksStayWhatTheyAre) {
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  write_whole_file(pipe, "some text");
  char read_back[16] = {};
  EXPECT_EQ(read(reader, read_back, sizeof read_back), 9);
  EXPECT_STREQ(read_back, "some text");
  close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));

  const std::string target = (folder_ / "target").string();
  const std::string link = (folder_ / "link").string();
  write_whole_file(target, "a longer text");
  fs::create_symlink(target, link);
  write_whole_file(link, "short");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(text_of_file(target), "short");
}

TEST_F(WholeFile, ALinkThatLiesInWaitIsNotFollowed) {
  const std::string victim = write("victim", "precious");
  const std::string target = (folder_ / "target").string();
  const fs::path foreseen = target + ".tmp" + std::to_string(getpid());
  fs::create_symlink(victim, foreseen);
  write_whole_file(target, "new");
  EXPECT_EQ(text_of_file(victim), "precious");
  EXPECT_EQ(text_of_file(target), "new");
  EXPECT_FALSE(fs::is_symlink(target));
  EXPECT_TRUE(fs::is_symlink(foreseen));
}

TEST_F(WholeFile, WhatAWriteThatWasCutLeftIsRemovedAndNothingElse) {
  const std::string target = write("config.json", "{}");
  for (const char* left : {".tmp12345", ".tmp0123456789abcdef"}) write("config.json" + std::string(left), "{");
  const std::string folder = make_folder_beside(target);
  for (const char* other : {".tmp", ".tmpl", ".tmpdead", ".tmp0123456789abcdeg", ".tmp0123456789abcdef0"}) {
    write("config.json" + std::string(other), "mine");
  }
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
  EXPECT_NE(make_folder_beside(target), folder);
  remove_cut_writes(target);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 6);
}

TEST_F(WholeFile, AWriteThatFailsSaysWhyAndLeavesNothing) {
  const fs::path taken = folder_ / "taken";
  fs::create_directory(taken);
  EXPECT_TRUE(contains(message_of<Error>([&] { write_whole_file(taken.string(), "text"); }), "Is a directory"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
  const std::string nowhere = (folder_ / "no" / "such").string();
  EXPECT_TRUE(contains(message_of<Error>([&] { write_whole_file(nowhere, "text"); }),
                       nowhere + ": No such file or directory; name a file in a folder that is there"));
  if (!fs::exists("/dev/full")) return;
  EXPECT_TRUE(contains(message_of<Error>([&] { write_whole_file("/dev/full", "text"); }), "No space left on device"));
}

}  // namespace
}  // namespace laconic
