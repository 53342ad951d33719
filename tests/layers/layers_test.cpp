// The checker of the layers, on trees that keep the law and on trees that break it.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;
  std::string text;
};

Outcome check(const fs::path& root) {
  const std::string command = std::string(LACONIC_LAYER_CHECK) + " '" + root.string() + "' 2>&1";
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[256];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) outcome.text += buffer;
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  return outcome;
}

/// A small tree of sources that is gone at the end of its test.
class Layers : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(::testing::TempDir()) / ("laconic_layers_" + std::string(test->name()));
    fs::remove_all(root_);
    write("include/laconic/laconic.h", "#include <vector>\n#include \"laconic/view.h\"\n");
    write("include/laconic/view.h", "#include <cstddef>\n");
    write("include/laconic/mpi.h", "#include <mpi.h>\n");
    write("src/base/check.h", "#include \"laconic/view.h\"\n");
    write("src/kernels/topk/topk.h", "#include \"base/check.h\"\n#include <hwy/highway.h>\n");
    write("src/codecs/sparse.h", "#include \"kernels/topk/topk.h\"\n");
    write("src/transport/mpi/mpi.cpp", "#include \"laconic/mpi.h\"\n#include <mpi.h>\n");
    write("src/exchange/sum.h", "#include \"codecs/sparse.h\"\n#include \"own.h\"\n");
    write("src/exchange/own.h", "");
    write("src/torch/baselines.cpp", "#include <ATen/ATen.h>\n");
    write("tools/laconic/main.cpp", "#include <CLI/CLI.hpp>\n#include \"bench/harness.h\"\n");
    write("bench/harness.h", "#include \"exchange/sum.h\"\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  void expect_breach(const std::string& where, const std::string& what) const {
    const Outcome outcome = check(root_);
    EXPECT_EQ(outcome.code, 1) << outcome.text;
    EXPECT_NE(outcome.text.find(where + ": error: includes " + what), std::string::npos) << outcome.text;
  }

  fs::path root_;
};

TEST_F(Layers, AcceptTheirOwnOrder) {
  const Outcome outcome = check(root_);
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_EQ(outcome.text, "");
}

TEST_F(Layers, AcceptThisProject) {
  const Outcome outcome = check(LACONIC_ROOT);
  EXPECT_EQ(outcome.code, 0) << outcome.text;
}

TEST_F(Layers, RefuseTheLayerBelow) {
  write("src/base/check.h", "\n\n#include \"kernels/topk/topk.h\"\n");
  expect_breach("src/base/check.h:3", "kernels/topk/topk.h; src/base may include, besides itself, include/laconic");
}

TEST_F(Layers, RefuseADetourThroughTheParentFolder) {
  write("src/base/check.h", "#include \"../kernels/topk/topk.h\"\n");
  expect_breach("src/base/check.h:1", "../kernels/topk/topk.h");
}

TEST_F(Layers, RefuseCodecsAndTransportToSeeEachOther) {
  write("src/transport/threads.cpp", "#include \"codecs/sparse.h\"\n");
  expect_breach("src/transport/threads.cpp:1", "codecs/sparse.h");
  write("src/transport/threads.cpp", "");
  write("src/transport/threads.h", "");
  write("src/codecs/dense.h", "  #  include <transport/threads.h>\n");
  expect_breach("src/codecs/dense.h:1", "transport/threads.h");
}

TEST_F(Layers, LetTheTransportOverTorchSeeWhatTransportsSee) {
  write("src/transport/failure.h", "");
  write("src/torch/plugin/c10d/world.h", "#include \"transport/failure.h\"\n");
  write("src/torch/plugin/ddp_hook.h", "#include \"torch/plugin/c10d/world.h\"\n");
  const Outcome outcome = check(root_);
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  write("src/torch/plugin/c10d/world.h", "#include \"torch/plugin/ddp_hook.h\"\n");
  expect_breach("src/torch/plugin/c10d/world.h:1", "torch/plugin/ddp_hook.h");
  write("src/torch/plugin/c10d/world.h", "#include \"exchange/sum.h\"\n");
  expect_breach("src/torch/plugin/c10d/world.h:1", "exchange/sum.h");
}

TEST_F(Layers, RefuseTorchOutsideItsFolder) {
  write("bench/harness.h", "#include <torch/torch.h>\n");
  expect_breach("bench/harness.h:1", "torch/torch.h; only src/torch, tests/torch, tests/python may include it");
  write("bench/harness.h", "#include <c10/util/Half.h>\n");
  expect_breach("bench/harness.h:1", "c10/util/Half.h");
}

TEST_F(Layers, RefuseLoopsOverGradientsOutsideKernels) {
  write("src/base/thread_pool.h", "");
  write("src/base/touch.h", "");
  write("src/kernels/topk/topk.h", "#include \"base/thread_pool.h\"\n#include \"base/touch.h\"\n");
  EXPECT_EQ(check(root_).code, 0) << check(root_).text;
  write("src/exchange/own.h", "#include \"base/touch.h\"\n");
  expect_breach("src/exchange/own.h:1", "base/touch.h; only src/kernels, src/codecs, tests may include it");
  write("src/exchange/own.h", "#include \"base/thread_pool.h\"\n");
  expect_breach("src/exchange/own.h:1", "base/thread_pool.h");
}

TEST_F(Layers, RefuseMpiOutsideItsTransport) {
  write("src/exchange/own.h", "#include <mpi.h>\n");
  expect_breach("src/exchange/own.h:1", "mpi.h");
  write("src/exchange/own.h", "#include \"laconic/mpi.h\"\n");
  expect_breach("src/exchange/own.h:1", "laconic/mpi.h");
}

TEST_F(Layers, RefuseAnEngineBehindThePublicHeader) {
  write("include/laconic/view.h", "#include \"laconic/mpi.h\"\n");
  expect_breach("include/laconic/view.h:1", "laconic/mpi.h; laconic/laconic.h may pull in only itself");
  write("include/laconic/view.h", "#include <cuda_runtime.h>\n");
  expect_breach("include/laconic/view.h:1", "cuda_runtime.h");
}

TEST_F(Layers, RefuseTestsInTheLibrary) {
  write("tests/support/support.h", "");
  write("src/base/check.h", "#include \"support/support.h\"\n");
  expect_breach("src/base/check.h:1", "support/support.h");
}

TEST(LayerCheck, SaysHowToCallIt) {
  const Outcome outcome = check("no such folder");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.text.find("usage"), std::string::npos);
}

}  // namespace
