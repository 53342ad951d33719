// Models that leave and come back, and that Python computes the same with.

#include "torch/train/export.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/buffer.h"
#include "laconic/error.h"
#include "support/support.h"
#include "support/temporary_folder.h"
#include "torch/networks.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;
using nets::make_network;
using test::contains;
using test::images;
using test::message_of;

class Export : public ::testing::Test {
 protected:
  test::TemporaryFolder own_;
  fs::path folder_ = own_.path();
  std::string path_ = (folder_ / "model.safetensors").string();
};

TEST_F(Export, ComesBack) {
  const InputShape shape = images(3, 16);
  FlatNetwork first(make_network("resnet20", shape, 10, 1));
  const torch::Tensor input = test::some_input(shape, 4);
  first.network().forward(input);  // moves the running statistics
  export_model(path_, first, {{"model", "resnet20"}});

  FlatNetwork second(make_network("resnet20", shape, 10, 2));
  Buffer<float> parameters(second.size());
  import_model(path_, second, parameters.view(second.size()));
  second.rebind(parameters.view(second.size()));
  first.network().eval();
  second.network().eval();
  EXPECT_TRUE(first.network().forward(input).equal(second.network().forward(input)));
}

TEST_F(Export, IsRefusedByAnotherModel) {
  FlatNetwork network(make_network("cnn", images(1, 16), 10, 1));
  export_model(path_, network);
  const auto refusal = [&](const char* name, const InputShape& shape, int classes) {
    FlatNetwork other(make_network(name, shape, classes, 1));
    Buffer<float> parameters(other.size());
    const View<float> view = parameters.view(other.size());
    std::fill(view.begin(), view.end(), 5.0F);
    const std::string said = message_of<Error>([&] { import_model(path_, other, view); });
    EXPECT_TRUE(std::all_of(view.begin(), view.end(), [](float value) { return value == 5.0F; })) << "written to";
    return said;
  };
  EXPECT_PRED2(contains, refusal("mlp", images(1, 16), 10),
               "tensor fc1.weight has shape [256 512], the model's is [256 256]");
  EXPECT_PRED2(contains, refusal("cnn", images(1, 16), 9),
               "tensor fc2.weight has shape [10 256], the model's is [9 256]");
  EXPECT_PRED2(contains, refusal("bilstm", test::texts(5, 9), 10), "no tensor embedding.weight");
  SafetensorsFile file = read_safetensors(path_);
  file.arrays.push_back({"more", {1}, file.arrays[0].values.sub(0, 1)});
  write_safetensors(path_, file.arrays);
  EXPECT_PRED2(contains, refusal("cnn", images(1, 16), 10), "has 11 tensors, the model 10");
}

// Python builds the same models of torch.nn, loads the files and compares the logits.
TEST_F(Export, IsReadByPython) {
  const std::string python = LACONIC_TORCH_PYTHON;
  if (python.empty() || std::system((python + " -c 'import torch' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "no python3 with torch";
  }
  struct Case {
    const char* name;
    InputShape shape;
  };
  std::string command = python + " -W ignore " + LACONIC_READ_MODEL;
  for (const auto& [name, shape] :
       {Case{"cnn", images(1, 28)}, {"resnet18", images(3, 16)}, {"bilstm", test::texts(7, 50)},
        {"gpt-small", test::characters(7, 10)}}) {
    const FlatNetwork network(make_network(name, shape, 10, 3));
    const torch::Tensor input = test::some_input(shape, 4);
    network.network().forward(input);  // moves the running statistics
    network.network().eval();
    const torch::Tensor given = input.to(torch::kFloat).contiguous(), logits = network.network().forward(input);
    const auto array = [](const char* what, const torch::Tensor& tensor) {
      return NamedArray{what,
                        {tensor.sizes().begin(), tensor.sizes().end()},
                        {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())}};
    };
    const std::string stem = (folder_ / name).string();
    export_model(stem + ".safetensors", network, {{"model", name}});
    const std::vector<NamedArray> arrays{array("input", given), array("logits", logits)};
    write_safetensors(stem + ".example", arrays);
    command += " " + stem;
  }
  EXPECT_EQ(std::system((command + " 2>&1").c_str()), 0) << command;
}

}  // namespace
}  // namespace laconic
