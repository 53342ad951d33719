// The public header stands alone: it compiles first and by itself, and brings no engine with it.

#include <laconic/laconic.h>

#if defined(MPI_VERSION) || defined(CUDART_VERSION) || defined(TORCH_VERSION) || defined(HWY_MAJOR)
#error "laconic/laconic.h pulls in the header of an engine"
#endif

#include <gtest/gtest.h>

TEST(PublicHeader, HasWhatAProgramStartsWith) {
  laconic::Place place({.threads = 1});
  EXPECT_EQ(place.threads(), 1);
  EXPECT_STREQ(laconic::kVersion, LACONIC_VERSION);
}
