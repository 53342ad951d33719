#include <algorithm>
#include <string>

#include "data/data_file.h"
#include "laconic/error.h"

#if LACONIC_ZLIB
#include <zlib.h>
#endif
#if LACONIC_LZMA
#include <lzma.h>
#endif

namespace laconic {
namespace {

#if !LACONIC_ZLIB || !LACONIC_LZMA
[[noreturn]] void cannot_read(const std::string& path, const char* library, const char* package, const char* tool) {
  throw Error("cannot read " + path + ": this build has no " + library + ". Install it (Debian: " + package +
              ") and configure again, or unpack the file (" + tool + ")");
}
#endif

#if LACONIC_ZLIB || LACONIC_LZMA
constexpr std::size_t kFirstBuffer = std::size_t{1} << 20;

/// Room for more output; Error once there is more than a file of this kind holds.
void grow(const std::string& path, std::vector<std::uint8_t>& bytes, std::uint64_t most) {
  if (bytes.size() > most) {
    wrong_file(path, most, "the end, as no file of this kind is larger", "further bytes");
  }
  bytes.resize(std::min<std::uint64_t>(most + 1, std::max(kFirstBuffer, bytes.size() * 2)));
}

/// Where in the packed file, and where in its contents, reading stopped.
[[noreturn]] void damaged(const std::string& path, const char* format, std::uint64_t in, std::uint64_t out,
                          std::uint64_t packed_bytes) {
  const std::string at = std::string(format) + " data (that hold byte " + std::to_string(out) + " of the contents)";
  wrong_file(path, in, at, in >= packed_bytes ? "the end: the file is cut off" : "damaged data");
}
#endif

}  // namespace

#if LACONIC_ZLIB

std::vector<std::uint8_t> from_gz(const std::string& path, std::span<const std::uint8_t> packed, std::uint64_t most) {
  constexpr int kGzipHeader = 16;  // added to the window's bits, it asks for gzip rather than zlib
  z_stream stream{};
  if (inflateInit2(&stream, MAX_WBITS + kGzipHeader) != Z_OK) throw Error("zlib could not start");
  struct End {
    z_stream* stream;
    ~End() { inflateEnd(stream); }
  } const end{&stream};
  std::vector<std::uint8_t> bytes;
  std::size_t in = 0;
  std::size_t out = 0;
  int result = Z_OK;
  while (result != Z_STREAM_END) {
    if (out == bytes.size()) grow(path, bytes, most);
    const auto input = static_cast<uInt>(std::min<std::size_t>(packed.size() - in, kFirstBuffer));
    const auto room = static_cast<uInt>(std::min<std::size_t>(bytes.size() - out, kFirstBuffer));
    stream.next_in = const_cast<Bytef*>(packed.data() + in);
    stream.avail_in = input;
    stream.next_out = bytes.data() + out;
    stream.avail_out = room;
    result = inflate(&stream, Z_NO_FLUSH);
    in += input - stream.avail_in;
    out += room - stream.avail_out;
    if (result != Z_OK && result != Z_STREAM_END) damaged(path, "gzip", in, out, packed.size());
  }
  if (in != packed.size()) wrong_file(path, in, "the end of the gzip file", "further bytes");
  bytes.resize(out);
  return bytes;
}

#else

std::vector<std::uint8_t> from_gz(const std::string& path, std::span<const std::uint8_t> /*packed*/,
                                  std::uint64_t /*most*/) {
  cannot_read(path, "zlib", "zlib1g-dev", "gzip -d");
}

#endif

#if LACONIC_LZMA

std::vector<std::uint8_t> from_xz(const std::string& path, std::span<const std::uint8_t> packed, std::uint64_t most) {
  constexpr std::uint64_t kMemory = std::uint64_t{1} << 30;
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, kMemory, 0) != LZMA_OK) throw Error("liblzma could not start");
  struct End {
    lzma_stream* stream;
    ~End() { lzma_end(stream); }
  } const end{&stream};
  std::vector<std::uint8_t> bytes;
  stream.next_in = packed.data();
  stream.avail_in = packed.size();
  lzma_ret result = LZMA_OK;
  while (result != LZMA_STREAM_END) {
    if (stream.total_out == bytes.size()) grow(path, bytes, most);
    stream.next_out = bytes.data() + stream.total_out;
    stream.avail_out = bytes.size() - stream.total_out;
    result = lzma_code(&stream, LZMA_FINISH);
    if (result != LZMA_OK && result != LZMA_STREAM_END) {
      damaged(path, "xz", stream.total_in, stream.total_out, packed.size());
    }
  }
  if (stream.avail_in != 0) wrong_file(path, stream.total_in, "the end of the xz file", "further bytes");
  bytes.resize(stream.total_out);
  return bytes;
}

#else

std::vector<std::uint8_t> from_xz(const std::string& path, std::span<const std::uint8_t> /*packed*/,
                                  std::uint64_t /*most*/) {
  cannot_read(path, "liblzma", "liblzma-dev", "xz -d");
}

#endif

}  // namespace laconic
