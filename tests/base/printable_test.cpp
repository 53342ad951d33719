// What comes from files cannot steer a terminal, and plain text of any language stays as it is.

#include "base/printable.h"

#include <gtest/gtest.h>

namespace laconic {
namespace {

TEST(Printable, LeavesTextAsItIs) {
  for (const char* text : {"", "plain ~ text", "Größe µ", "名前", "\xf0\x9f\x98\x80", "a\\b"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(printable("\x1b[31mred\x1b]0;title\x07"), "\\x1b[31mred\\x1b]0;title\\x07");
  EXPECT_EQ(printable("two\nlines\tand\rback\x7f"), "two\\nlines\\tand\\x0dback\\x7f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m")
      << "a control sequence in two bytes";
  EXPECT_EQ(printable("\xc2\xa0"), "\xc2\xa0") << "the first that is none";
}

TEST(Printable, EscapesWhatIsNoUtf8) {
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("cut \xe5\x90"), "cut \\xe5\\x90");
  EXPECT_EQ(printable("\xe5\x1b["), "\\xe5\\x1b[") << "the byte that follows is looked at by itself";
  EXPECT_EQ(printable("\xc0\x9b \xe0\x80\x9b \xed\xa0\x80 \xf5\x80\x80\x80"),
            "\\xc0\\x9b \\xe0\\x80\\x9b \\xed\\xa0\\x80 \\xf5\\x80\\x80\\x80");
}

}  // namespace
}  // namespace laconic
