// The checker of the layers, on trees that keep the law and on trees that break it.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "support/shell.h"
#include "support/temporary_folder.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;
using test::Outcome;

Outcome check(const fs::path& root) {
  return test::shell(std::string(LACONIC_LAYER_CHECK) + " '" + root.string() + "'");
}

/// A small tree of sources that is gone at the end of its test.
class Layers : public ::testing::Test {
 protected:
  void SetUp() override {
    write("include/laconic/laconic.h", "#include <vector>\n#include \"laconic/view.h\"\n");
    write("include/laconic/view.h", "#include <cstddef>\n");
    write("include/laconic/mpi.h", "#include <mpi.h>\n");
    write("src/base/check.h", "#include \"laconic/view.h\"\n");
    write("src/kernels/topk/topk.h", "#include \"base/check.h\"\n#include <hwy/highway.h>\n");
    write("src/codecs/sparse.h", "#include \"kernels/topk/topk.h\"\n");
    write("src/transport/mpi/mpi.cpp", "#include \"laconic/mpi.h\"\n#include <mpi.h>\n");
    write("src/exchange/sum.h", "#include \"codecs/sparse.h\"\n#include \"own.h\"\n");
    write("src/exchange/own.h", "");
    write("src/torch/train/baselines.cpp", "#include <ATen/ATen.h>\n");
    write("tools/laconic/main.cpp", "#include <CLI/CLI.hpp>\n#include \"bench/harness.h\"\n");
    write("bench/harness.h", "#include \"exchange/sum.h\"\n");
  }

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  void expect_breach(const std::string& where, const std::string& what) const {
    const Outcome outcome = check(root_);
    EXPECT_EQ(outcome.code, 1) << outcome.text;
    EXPECT_NE(outcome.text.find(where + ": error: includes " + what), std::string::npos) << outcome.text;
  }

  test::TemporaryFolder own_;
  fs::path root_ = own_.path();
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

/// The folders in the first column of the table of tests/README.md, without the last '/'.
std::set<std::string> folders_of_readme(std::vector<std::string>& labels) {
  std::set<std::string> folders;
  std::ifstream input(fs::path(LACONIC_ROOT) / "tests/README.md");
  for (std::string line; std::getline(input, line);) {
    if (!line.starts_with("| `")) continue;
    folders.insert(line.substr(3, line.find("/`") - 3));
    const std::regex label("-L ([a-z]+)");
    for (std::sregex_iterator found(line.begin(), line.end(), label), end; found != end; ++found) {
      labels.push_back((*found)[1]);
    }
  }
  return folders;
}

TEST(TestsReadme, SaysWhatToRunForEveryFolder) {
  std::vector<std::string> labels;
  const std::set<std::string> rows = folders_of_readme(labels);
  const fs::path root(LACONIC_ROOT);
  for (const std::string& row : rows) EXPECT_TRUE(fs::is_directory(root / row)) << row << " has a row and is not there";
  for (const auto& entry : fs::recursive_directory_iterator(root / "src")) {
    if (!entry.is_regular_file()) continue;
    fs::path folder = entry.path().parent_path().lexically_relative(root);
    const std::string name = folder.string();
    while (!folder.empty() && !rows.contains(folder.string())) folder = folder.parent_path();
    // CMakeLists.txt of a folder that has only folders is nobody's code.
    EXPECT_TRUE(!folder.empty() || entry.path().extension() == ".txt") << name << " has no row in tests/README.md";
  }
  for (const std::string& label : labels) {
    const bool folder = fs::is_directory(root / "tests" / label) || fs::is_directory(root / "tests/torch" / label);
    EXPECT_TRUE(folder || fs::is_directory(root / label)) << "there is no folder of tests named " << label;
  }
}

}  // namespace
}  // namespace laconic
