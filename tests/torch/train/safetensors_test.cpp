// Files of tensors: what was written is read, and every kind of damage is refused by name.

#include "torch/train/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
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

class Safetensors : public ::testing::Test {
 protected:
  test::TemporaryFolder own_;
  fs::path folder_ = own_.path();
  std::string path_ = (folder_ / "model.safetensors").string();

  void write_bytes(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string read_bytes() const { return test::text_of_file(path_); }
  void write(const std::string& header, std::size_t data_bytes) const {
    const std::uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
    write_bytes(bytes + header + std::string(data_bytes, '\0'));
  }
  std::string refusal() const {
    return message_of<Error>([&] { read_safetensors(path_); });
  }
};

TEST_F(Safetensors, ReadWhatWasWritten) {
  const std::vector<float> matrix{1.0F, -0.0F, 3.5F, 1e-45F, -2.0F, 6.0F}, one{7.0F}, none;
  const std::vector<NamedArray> arrays{
      {"layer1.0.weight", {2, 3}, matrix}, {"a scalar", {}, one}, {"empty \"quoted\" é", {0, 4}, none}};
  write_safetensors(path_, arrays, {{"model", "cnn"}, {"step", "12"}});
  const SafetensorsFile file = read_safetensors(path_);
  EXPECT_EQ(file.remarks, (Remarks{{"model", "cnn"}, {"step", "12"}}));
  ASSERT_EQ(file.arrays.size(), arrays.size());
  for (const NamedArray& wanted : arrays) {
    const auto found = std::find_if(file.arrays.begin(), file.arrays.end(),
                                    [&](const NamedArray& array) { return array.name == wanted.name; });
    ASSERT_NE(found, file.arrays.end()) << wanted.name;
    EXPECT_EQ(found->shape, wanted.shape);
    ASSERT_EQ(found->values.size(), wanted.values.size());
    if (wanted.values.empty()) continue;
    EXPECT_EQ(std::memcmp(found->values.data(), wanted.values.data(), wanted.values.size_bytes()), 0) << wanted.name;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}), 1) << "something was left beside";
}

TEST_F(Safetensors, AlignTheirValues) {
  const std::vector<float> values{1.0F};
  for (const char* name : {"a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg", "abcdefgh"}) {
    const std::vector<NamedArray> arrays{{name, {1}, values}};
    write_safetensors(path_, arrays);
    EXPECT_EQ(read_bytes().size() % 8, 4U) << name;
  }
}

TEST_F(Safetensors, AreRefusedCutAnywhere) {
  const std::vector<float> values(5, 1.0F);
  const std::vector<NamedArray> arrays{{"weight", {5}, values}};
  write_safetensors(path_, arrays);
  const std::string whole = read_bytes();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_bytes(whole.substr(0, length));
    EXPECT_PRED2(contains, refusal(), path_ + ", offset ") << "cut to " << length << " bytes";
  }
  write_bytes(whole + "x");
  EXPECT_PRED2(contains, refusal(),
               "offset " + std::to_string(whole.size()) + ": expected the end of the file, found 1");
}

TEST_F(Safetensors, AreRefusedByWhatIsWrong) {
  struct Damage {
    const char* header;
    std::size_t data_bytes;
    const char* said;
  };
  const std::vector<Damage> table{
      {R"({"w":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", 4,
       "expected dtype \"F32\" for tensor w, found \"F16\""},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "4 bytes for each entry of shape [2]"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3, "bytes [0,4] of the data"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "bytes [4,0] of the data"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "the next tensor's data, found tensor w"},
      {R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "a shape for tensor w, found [-1]"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "two data_offsets for tensor w"},
      {R"({"w":{"dtype":"F32","shape":[1]}})", 4, "dtype, shape and data_offsets for tensor w"},
      {R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "4 bytes for each entry"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "the next tensor's data"},
      {R"({"__metadata__":{"step":1}})", 0, "a text as __metadata__ step, found 1"},
      {R"([])", 0, "a JSON object, found array"},
      {R"({"w":)", 0, "offset 13: expected JSON"},
  };
  for (const Damage& damage : table) {
    write(damage.header, damage.data_bytes);
    EXPECT_PRED2(contains, refusal(), damage.said) << damage.header;
  }
  write("{\"w\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0);
  EXPECT_PRED2(contains, refusal(), "offset 76: expected JSON of at most 64 levels, found more");
  fs::remove(path_);
  EXPECT_PRED2(contains, refusal(), "cannot read " + path_);
  fs::create_directories(path_);
  EXPECT_PRED2(contains, refusal(), "cannot read " + path_);
}

TEST_F(Safetensors, AreNotWrittenIntoAFolderThatIsNot) {
  const std::string nowhere = (folder_ / "none" / "model").string();
  EXPECT_PRED2(contains, message_of<Error>([&] { write_safetensors(nowhere, {}); }), nowhere);
}

}  // namespace
}  // namespace laconic
