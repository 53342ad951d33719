#include "data/md5.h"

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <vector>

#include "laconic/error.h"

namespace laconic {
namespace {

constexpr std::size_t kBlock = 64;

// floor(2^32 |sin(i + 1)|), as the RFC has them.
constexpr std::array<std::uint32_t, 64> kSines{
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};
constexpr std::array<std::array<int, 4>, 4> kTurns{{{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}}};

class Md5 {
 public:
  void add(std::span<const std::uint8_t> bytes) {
    total_ += bytes.size();
    for (const std::uint8_t byte : bytes) {
      block_[filled_++] = byte;
      if (filled_ == kBlock) {
        mix();
        filled_ = 0;
      }
    }
  }

  std::string finish() {
    const std::uint64_t bits = total_ * 8;
    static constexpr std::uint8_t kEnd = 0x80;
    static constexpr std::uint8_t kZero = 0;
    add({&kEnd, 1});
    while (filled_ != kBlock - 8) add({&kZero, 1});
    std::array<std::uint8_t, 8> length{};
    for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<std::uint8_t>(bits >> (8 * i));
    add(length);
    std::string text;
    for (const std::uint32_t word : state_) {
      for (int shift : {4, 0, 12, 8, 20, 16, 28, 24}) text.push_back("0123456789abcdef"[word >> shift & 15]);
    }
    return text;
  }

 private:
  void mix() {
    auto [a, b, c, d] = state_;
    for (std::uint32_t i = 0; i < 64; ++i) {
      std::uint32_t f = 0;
      std::uint32_t word = 0;
      switch (i / 16) {
        case 0: f = (b & c) | (~b & d), word = i; break;
        case 1: f = (d & b) | (~d & c), word = 5 * i + 1; break;
        case 2: f = b ^ c ^ d, word = 3 * i + 5; break;
        default: f = c ^ (b | ~d), word = 7 * i; break;
      }
      const std::uint32_t sum = a + f + kSines[i] + input_word(word % 16);
      a = d;
      d = c;
      c = b;
      b += std::rotl(sum, kTurns[i / 16][i % 4]);
    }
    state_ = {state_[0] + a, state_[1] + b, state_[2] + c, state_[3] + d};
  }

  std::uint32_t input_word(std::uint32_t i) const {
    return static_cast<std::uint32_t>(block_[4 * i]) | static_cast<std::uint32_t>(block_[4 * i + 1]) << 8 |
           static_cast<std::uint32_t>(block_[4 * i + 2]) << 16 | static_cast<std::uint32_t>(block_[4 * i + 3]) << 24;
  }

  std::array<std::uint32_t, 4> state_{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  std::array<std::uint8_t, kBlock> block_{};
  std::size_t filled_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace

std::string md5(std::span<const std::uint8_t> bytes) {
  Md5 sum;
  sum.add(bytes);
  return sum.finish();
}

std::string md5_of_file(const std::string& path) {
  std::ifstream input(path, std::ios::binary);
  Md5 sum;
  std::vector<std::uint8_t> buffer(std::size_t{1} << 16);
  while (input) {
    input.read(reinterpret_cast<char*>(buffer.data()), static_cast<std::streamsize>(buffer.size()));
    sum.add({buffer.data(), static_cast<std::size_t>(input.gcount())});
  }
  if (!input.eof()) throw Error("cannot read " + path);
  return sum.finish();
}

}  // namespace laconic
