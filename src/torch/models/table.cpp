#include <array>

#include "base/suggestion.h"
#include "laconic/error.h"
#include "torch/models/families.h"

namespace laconic::nets {
namespace {

// clang-format off
constexpr InputKind kImage = InputKind::image;
constexpr std::array<ModelRow, 11> kTable{{
    // name, summary, takes, has dropout, smallest side, context, maker
    {"mlp", "two hidden layers of 256", kImage, false, 1, 0, make_mlp},
    {"cnn", "convolutions of 32, 64 and 128 channels, each with a max-pool, and 256 hidden units", kImage, false, 8, 0, make_cnn},
    {"resnet18", "residual network of 18 layers", kImage, false, 8, 0, make_resnet18},
    {"resnet20", "small residual network of 20 layers, 16 to 64 channels, shortcuts without parameters", kImage, false, 4, 0, make_resnet20},
    {"resnet34", "residual network of 34 layers", kImage, false, 8, 0, make_resnet34},
    {"resnet50", "residual network of 50 layers with bottlenecks", kImage, false, 8, 0, make_resnet50},
    {"wrn28-10", "wide residual network of 28 layers, ten times as wide", kImage, true, 4, 0, make_wrn28_10},
    {"vgg16", "thirteen convolutions with batch norm, one linear layer", kImage, false, 4, 0, make_vgg16},
    {"bilstm", "embedding, bidirectional LSTM, linear", InputKind::text, true, 0, 0, make_bilstm},
    {"gpt", "transformer of 6 layers, 6 heads, 384 wide, that reads 256 characters", InputKind::characters, true, 0, 256, make_gpt},
    {"gpt-small", "transformer of 3 layers, 4 heads, 128 wide, that reads 64 characters", InputKind::characters, true, 0, 64, make_gpt_small},
}};
// clang-format on

/// What a kind of input is called, and which models take it.
struct KindWords {
  const char* samples;
  const char* models;
};

KindWords words_of(InputKind kind) {
  switch (kind) {
    case InputKind::image:
      return {"images", "cnn or another model of images"};
    case InputKind::text:
      return {"texts", "bilstm"};
    case InputKind::characters:
      return {"characters", "gpt or gpt-small"};
  }
  return {};
}

void require_kind(const ModelRow& row, const InputShape& input) {
  if (input.kind == row.takes) return;
  const KindWords given = words_of(input.kind);
  throw InvalidConfig(std::string("model ") + row.name + " takes " + words_of(row.takes).samples +
                      " and the task has " + given.samples + ": use " + given.models);
}

void require_image(const ModelRow& row, const InputShape& input) {
  const std::string model = std::string("model ") + row.name;
  if (input.channels < 1) {
    throw InvalidConfig(model + ": channels must be at least 1, got " + std::to_string(input.channels));
  }
  if (std::min(input.height, input.width) < row.smallest_side) {
    throw InvalidConfig(model + ": images must be at least " + std::to_string(row.smallest_side) +
                        " pixels high and wide, got " + std::to_string(input.height) + " by " +
                        std::to_string(input.width) + ": use mlp");
  }
}

void require_text(const ModelRow& row, const InputShape& input) {
  const std::string model = std::string("model ") + row.name;
  if (input.vocabulary < 2) {
    throw InvalidConfig(model + ": the vocabulary must have at least 2 entries, the padding and a word, got " +
                        std::to_string(input.vocabulary));
  }
  if (input.length < 1) {
    throw InvalidConfig(model + ": texts must be at least 1 word long, got " + std::to_string(input.length));
  }
}

void require_characters(const ModelRow& row, const InputShape& input) {
  if (input.length >= 1 && input.length <= row.context) return;
  throw InvalidConfig(std::string("model ") + row.name + ": windows must have 1 to " + std::to_string(row.context) +
                      " characters, got " + std::to_string(input.length));
}

void require_input(const ModelRow& row, const InputShape& input) {
  require_kind(row, input);
  if (row.takes == InputKind::image) require_image(row, input);
  if (row.takes == InputKind::text) require_text(row, input);
  if (row.takes == InputKind::characters) require_characters(row, input);
}

}  // namespace

std::span<const ModelRow> model_table() { return kTable; }

const ModelRow& model_row(std::string_view name) {
  return row_named(model_table(), name, "model");
}

std::shared_ptr<Network> make_network(std::string_view name, const InputShape& input, int classes, std::uint64_t seed,
                                      const ModelOptions& options) {
  const ModelRow& row = model_row(name);
  require_input(row, input);
  if (classes < 2) throw InvalidConfig("classes must be at least 2, got " + std::to_string(classes));
  if (options.dropout) {
    if (!row.has_dropout) throw InvalidConfig(std::string("model ") + row.name + " has no dropout: leave it out");
    if (!(*options.dropout >= 0.0 && *options.dropout < 1.0)) {
      throw InvalidConfig("dropout must be in [0, 1), got " + std::to_string(*options.dropout));
    }
  }
  Builder builder(seed);
  return row.make(builder, input, classes, options);
}

std::uint64_t parameter_count(const torch::nn::Module& network) {
  std::uint64_t count = 0;
  for (const auto& parameter : network.parameters()) count += static_cast<std::uint64_t>(parameter.numel());
  return count;
}

}  // namespace laconic::nets
