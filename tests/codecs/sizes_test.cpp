#include <gtest/gtest.h>

#include <sstream>

#include "codecs/samples.h"
#include "support/text_of_file.h"

namespace laconic {
namespace {

/// "name: bytes", a line a sample: what tests/codecs/sizes.txt holds.
std::string table_of_sizes() {
  Place place({.threads = 1});
  std::ostringstream table;
  for (const std::size_t n : {1'000U, 100'000U}) {
    for (const auto& sample : test::samples_of(n)) {
      if (sample->name().find("in place") != std::string::npos) continue;  // the same payloads
      table << sample->name() << ": " << sample->encoded(place).size() << '\n';
    }
  }
  return table.str();
}

TEST(Sizes, AreThoseOfTheCommittedTable) {
  EXPECT_EQ(table_of_sizes(), test::text_of_file(LACONIC_SIZES_FILE))
      << "Payload lengths changed. If that is meant, put the table above into tests/codecs/sizes.txt and say why.";
}

}  // namespace
}  // namespace laconic
