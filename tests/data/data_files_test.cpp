#include <gtest/gtest.h>

#include <algorithm>

#include "data/data_file.h"
#include "data/md5.h"
#include "data_folder.h"

#if LACONIC_ZLIB
#include <zlib.h>
#endif
#if LACONIC_LZMA
#include <lzma.h>
#endif

namespace laconic {
namespace {

using testing::Bytes;
using testing::DataFolder;

constexpr const char* kTrainImages = "mnist/train-images-idx3-ubyte";
constexpr const char* kTrainLabels = "mnist/train-labels-idx1-ubyte";

void append_number(Bytes& bytes, std::uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(value >> shift));
}

Bytes idx_images(std::uint32_t count, std::uint8_t first_pixel) {
  Bytes bytes;
  for (const std::uint32_t value : {0x803U, count, 28U, 28U}) append_number(bytes, value);
  for (std::uint32_t i = 0; i < count * 784; ++i) bytes.push_back(static_cast<std::uint8_t>(first_pixel + i / 784));
  return bytes;
}

Bytes idx_labels(std::uint32_t count) {
  Bytes bytes;
  for (const std::uint32_t value : {0x801U, count}) append_number(bytes, value);
  for (std::uint32_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(i % 10));
  return bytes;
}

/// Twelve training images and five test images; every pixel of image i is i, of test image i 100 + i.
void write_mnist(const DataFolder& folder, const std::string& task = "mnist") {
  folder.write(task + "/train-images-idx3-ubyte", idx_images(12, 0));
  folder.write(task + "/train-labels-idx1-ubyte", idx_labels(12));
  folder.write(task + "/t10k-images-idx3-ubyte", idx_images(5, 100));
  folder.write(task + "/t10k-labels-idx1-ubyte", idx_labels(5));
}

TEST(Idx, ReadsImagesAndLabels) {
  const DataFolder folder;
  write_mnist(folder, "fashion-mnist");
  const auto task = folder.make("fashion-mnist");
  EXPECT_EQ(task->train_size(), 12U);
  EXPECT_EQ(task->test_size(), 5U);
  EXPECT_EQ(task->train_label(11), 1);
  std::vector<float> images(2 * 784);
  task->train_images(std::vector<std::uint32_t>{11, 3}, 0, images);
  EXPECT_EQ(images.front(), static_cast<float>((11 / 255.0 - 0.286) / 0.353));
  EXPECT_EQ(images.back(), static_cast<float>((3 / 255.0 - 0.286) / 0.353));
  task->test_images(3, 2, images);
  EXPECT_EQ(images.back(), static_cast<float>((104 / 255.0 - 0.286) / 0.353));
}

TEST(Idx, TakesTheFirstSamplesAndRefusesMoreThanThereAre) {
  const DataFolder folder;
  write_mnist(folder);
  const auto task = folder.make("mnist", {.train_samples = 7, .test_samples = 2});
  EXPECT_EQ(task->train_size(), 7U);
  EXPECT_EQ(task->test_size(), 2U);
  EXPECT_EQ(task->note(), "mnist: the files hold 12 training and 5 test samples, the publisher's 60000 and 10000");
  EXPECT_SAYS(folder.complaint("mnist", {.train_samples = 13}), "train_samples must be in [0, 12], got 13");
}

// Both sets have the same names and sizes: what tells them apart is how labels begin, and how bright images are.
TEST(Idx, RefusesTheFilesOfTheOtherSet) {
  const DataFolder folder;
  write_mnist(folder);
  Bytes labels;
  for (const std::uint32_t value : {0x801U, 12U}) append_number(labels, value);
  for (const std::uint8_t label : {9, 0, 0, 3, 0, 2, 7, 2, 5, 5, 0, 9}) labels.push_back(label);
  folder.write(kTrainLabels, labels);
  EXPECT_SAYS(folder.complaint("mnist"),
              folder.file(kTrainLabels) + ", offset 8: expected the labels of mnist, found those of fashion-mnist");
  write_mnist(folder);
  Bytes images = idx_images(1000, 0);
  std::fill(images.begin() + 16, images.end(), std::uint8_t{73});  // 0.286 of 255
  folder.write(kTrainImages, images);
  folder.write(kTrainLabels, idx_labels(1000));
  EXPECT_SAYS(folder.complaint("mnist"),
              folder.file(kTrainImages) + ", offset 16: expected the images of mnist, found those of fashion-mnist");
  std::fill(images.begin() + 16, images.end(), std::uint8_t{33});
  folder.write(kTrainImages, images);
  EXPECT_EQ(folder.make("mnist")->train_size(), 1000U);
}

// Trained on and tested on alike, a network would seem to know everything.
TEST(Idx, RefusesTheTestImagesForTheTrainingImages) {
  const DataFolder folder;
  write_mnist(folder);
  folder.write(kTrainImages, idx_images(5, 100));
  folder.write(kTrainLabels, idx_labels(5));
  EXPECT_SAYS(folder.complaint("mnist"), folder.file("mnist/t10k-images-idx3-ubyte") +
                                             ", offset 16: expected other contents than those of " +
                                             folder.file(kTrainImages) + ", found the same");
}

TEST(Idx, SaysWhatIsMissingAndWhatToDo) {
  const DataFolder folder;
  write_mnist(folder);
  folder.remove(kTrainLabels);
  const std::string said = folder.complaint("mnist");
  EXPECT_SAYS(said, folder.file(kTrainLabels));
  EXPECT_SAYS(said, "laconic data get mnist --to " + folder.path());
}

TEST(Idx, DamageIsToldByFileOffsetAndExpectation) {
  const DataFolder folder;
  const auto says_of = [&](const char* file, const Bytes& bytes) {
    write_mnist(folder);
    folder.write(file, bytes);
    const std::string said = folder.complaint("mnist");
    EXPECT_SAYS(said, folder.file(file));
    return said;
  };
  Bytes images = idx_images(12, 0);
  images.pop_back();
  EXPECT_SAYS(says_of(kTrainImages, images),
              "offset 9423: expected 9424 bytes, 12 images, found 9423: the file is cut");
  images.resize(9425);
  EXPECT_SAYS(says_of(kTrainImages, images), "offset 9424: expected 9424 bytes, 12 images, found 9425");
  images.resize(10);
  EXPECT_SAYS(says_of(kTrainImages, images), "offset 10: expected 16 bytes of an idx header");
  EXPECT_SAYS(says_of(kTrainImages, {}), "offset 0: expected 16 bytes of an idx header");

  Bytes wide = idx_images(12, 0);
  wide[15] = 29;
  EXPECT_SAYS(says_of(kTrainImages, wide), "offset 12: expected 28 columns, found 29");
  EXPECT_SAYS(says_of(kTrainImages, idx_labels(12)), "offset 0: expected 0x00000803");
  EXPECT_SAYS(says_of(kTrainLabels, idx_images(12, 0)), "found 0x00000803 (images)");
  EXPECT_SAYS(says_of(kTrainLabels, idx_labels(11)), "offset 4: expected 12 labels, as there are images, found 11");

  EXPECT_SAYS(says_of(kTrainImages, idx_images(0, 0)), "offset 4: expected 1 image or more, found 0");

  Bytes labels = idx_labels(12);
  labels[8 + 5] = 10;
  EXPECT_SAYS(says_of(kTrainLabels, labels), "offset 13: expected a label below 10, found 10");
}

// --- CIFAR ---------------------------------------------------------------------------------------------------------

/// A file of zeros of the given size that takes no room on disk, with some bytes set.
void write_sparse(const DataFolder& folder, const std::string& name, std::uint64_t size,
                  const std::vector<std::pair<std::uint64_t, std::uint8_t>>& set = {}) {
  folder.write(name, Bytes{});
  std::filesystem::resize_file(folder.file(name), size);
  std::fstream file(folder.file(name), std::ios::binary | std::ios::in | std::ios::out);
  for (const auto& [offset, value] : set) {
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(value));
  }
}

constexpr std::uint64_t kCifarBytes = std::uint64_t{10000} * 3073;

TEST(Cifar, CropsAndFlipsByEpochAndSample) {
  const DataFolder folder;
  // Sample 1 has label 7 and one red pixel in row 8, column 20.
  write_sparse(folder, "cifar-10/data_batch_1.bin", kCifarBytes, {{3073, 7}, {3073 + 1 + 8 * 32 + 20, 255}});
  write_sparse(folder, "cifar-10/test_batch.bin", kCifarBytes, {{2 * 3073, 3}});
  const TaskOptions options{.train_samples = 100, .test_samples = 10};
  const auto task = folder.make("cifar10", options);
  EXPECT_EQ(task->train_label(1), 7);
  EXPECT_EQ(task->test_label(2), 3);
  ASSERT_EQ(task->input().size(), 3072U);

  const std::vector<std::uint32_t> samples{1};
  std::vector<float> image(3072);
  std::vector<int> columns;
  std::vector<int> rows;
  for (std::uint32_t epoch = 0; epoch < 400; ++epoch) {
    task->train_images(samples, epoch, image);
    const auto at = static_cast<int>(std::max_element(image.begin(), image.begin() + 1024) - image.begin());
    rows.push_back(at / 32);
    columns.push_back(at % 32);
  }
  // A shift of up to four rows; a shift of up to four columns of column 20, or of 11 in the mirror.
  const auto span_of = [](const std::vector<int>& values) {
    return std::pair(*std::min_element(values.begin(), values.end()), *std::max_element(values.begin(), values.end()));
  };
  EXPECT_EQ(span_of(rows), std::pair(4, 12));
  EXPECT_EQ(span_of(columns), std::pair(7, 24));
  EXPECT_NEAR(static_cast<double>(std::count_if(columns.begin(), columns.end(), [](int x) { return x < 16; })), 200.0,
              40.0);

  std::vector<float> again(3072);
  task->train_images(samples, 399, again);
  EXPECT_EQ(image, again);
  TaskOptions plain = options;
  plain.augment = false;
  folder.make("cifar10", plain)->train_images(samples, 3, image);
  EXPECT_EQ(std::max_element(image.begin(), image.end()) - image.begin(), 8 * 32 + 20);
  EXPECT_EQ(image[2 * 1024], static_cast<float>((0.0 - 0.4465) / 0.2616));
}

TEST(Cifar, DamageIsToldByFileOffsetAndExpectation) {
  const DataFolder folder;
  const TaskOptions options{.train_samples = 10, .test_samples = 10};
  write_sparse(folder, "cifar-10/test_batch.bin", kCifarBytes);
  write_sparse(folder, "cifar-10/data_batch_1.bin", kCifarBytes, {{std::uint64_t{9000} * 3073, 10}});
  EXPECT_SAYS(folder.complaint("cifar10", options), "offset 27657000: expected a label below 10, found 10");
  write_sparse(folder, "cifar-10/data_batch_1.bin", kCifarBytes - 3073);
  EXPECT_SAYS(folder.complaint("cifar10", options),
              "offset 30726927: expected 30730000 bytes, 10000 records of 3073 bytes, found 30726927: the file is cut");
  // CIFAR-100's test file in place of CIFAR-10's.
  write_sparse(folder, "cifar-10/data_batch_1.bin", kCifarBytes + 10000);
  EXPECT_SAYS(folder.complaint("cifar10", options), "found 30740000: the file is too long");
}

TEST(Cifar, RefusesAFileUnderTwoNames) {
  const DataFolder folder;
  for (const char* name : {"data_batch_1.bin", "test_batch.bin"}) {
    write_sparse(folder, std::string("cifar-10/") + name, kCifarBytes, {{0, 6}, {5, 200}});
  }
  EXPECT_SAYS(folder.complaint("cifar10", {.train_samples = 10, .test_samples = 10}),
              folder.file("cifar-10/test_batch.bin") + ", offset 0: expected other contents than those of " +
                  folder.file("cifar-10/data_batch_1.bin"));
}

TEST(Cifar, HundredHasACoarseLabelFirst) {
  const DataFolder folder;
  write_sparse(folder, "cifar-100-binary/train.bin", std::uint64_t{50000} * 3074, {{0, 19}, {1, 99}});
  write_sparse(folder, "cifar-100-binary/test.bin", std::uint64_t{10000} * 3074, {{3074, 20}});
  const TaskOptions options{.train_samples = 1, .test_samples = 1};
  EXPECT_SAYS(folder.complaint("cifar100", options), "offset 3074: expected a label below 20, found 20");
  write_sparse(folder, "cifar-100-binary/test.bin", std::uint64_t{10000} * 3074, {});
  EXPECT_EQ(folder.make("cifar100", options)->train_label(0), 99);
}

// --- compression ---------------------------------------------------------------------------------------------------

#if LACONIC_ZLIB
Bytes gz(const Bytes& bytes) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes packed(deflateBound(&stream, bytes.size()) + 64);
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}
#endif

#if LACONIC_LZMA
Bytes xz(const Bytes& bytes) {
  Bytes packed(lzma_stream_buffer_bound(bytes.size()));
  std::size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, nullptr, bytes.data(), bytes.size(), packed.data(), &size,
                                    packed.size()),
            LZMA_OK);
  packed.resize(size);
  return packed;
}
#endif

struct Packing {
  const char* name;
  Bytes (*pack)(const Bytes&);
  std::vector<std::uint8_t> (*unpack)(const std::string&, std::span<const std::uint8_t>, std::uint64_t);
};

std::vector<Packing> packings() {
  std::vector<Packing> all;
#if LACONIC_ZLIB
  all.push_back({"gz", gz, from_gz});
#endif
#if LACONIC_LZMA
  all.push_back({"xz", xz, from_xz});
#endif
  return all;
}

std::string complaint_of(const Packing& packing, const Bytes& packed, std::uint64_t most) {
  try {
    packing.unpack("a file", packed, most);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Compressed, GivesTheBytesBack) {
  for (const Packing& packing : packings()) {
    for (const std::size_t size : {0U, 1U, 1000U, 1048576U, 3000001U}) {
      Bytes bytes(size);
      for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i * i / 1000);
      EXPECT_EQ(packing.unpack("a file", packing.pack(bytes), size), bytes) << packing.name << ", " << size;
    }
  }
}

TEST(Compressed, EveryCutIsTold) {
  const Bytes bytes = idx_images(3, 7);
  for (const Packing& packing : packings()) {
    const Bytes packed = packing.pack(bytes);
    for (std::size_t cut = 0; cut < packed.size(); ++cut) {
      const std::string said =
          complaint_of(packing, Bytes(packed.begin(), packed.begin() + static_cast<long>(cut)), 10000);
      EXPECT_SAYS(said, "a file, offset " + std::to_string(cut) + ": expected ");
      EXPECT_SAYS(said, "the file is cut off");
    }
  }
}

TEST(Compressed, DamageAndExcessAreTold) {
  const Bytes bytes = idx_images(3, 7);
  for (const Packing& packing : packings()) {
    Bytes packed = packing.pack(bytes);
    packed[packed.size() / 2] ^= 0x55U;
    EXPECT_SAYS(complaint_of(packing, packed, 10000), "a file, offset ");
    packed = packing.pack(bytes);
    packed.push_back(0);
    EXPECT_SAYS(complaint_of(packing, packed, 10000), "expected the end of the ");
    EXPECT_SAYS(complaint_of(packing, packing.pack(Bytes(2000000)), 1000), "offset 1000: expected the end");
    EXPECT_SAYS(complaint_of(packing, Bytes(100, 'x'), 1000), "a file, offset ");
  }
}

TEST(Compressed, FilesAreReadWhereThePlainOneIsMissing) {
  const DataFolder folder;
  for (const Packing& packing : packings()) {
    write_mnist(folder);
    folder.remove(kTrainImages);
    const std::string name = std::string(kTrainImages) + "." + packing.name;
    folder.write(name, packing.pack(idx_images(12, 0)));
    EXPECT_EQ(folder.make("mnist")->train_size(), 12U);
    folder.remove(name);
  }
}

// A terabyte would be refused by the allocator at best, and take the machine down at worst.
TEST(Idx, AFileThatIsTooLargeIsRefusedBeforeItIsRead) {
  const DataFolder folder;
  write_mnist(folder);
  const std::uint64_t terabyte = std::uint64_t{1} << 40;
  write_sparse(folder, kTrainImages, terabyte);
  EXPECT_SAYS(folder.complaint("mnist"), "offset 470400016: expected the end, as no file of this kind is larger, "
                                         "found 1099511627776 bytes");
  folder.remove(kTrainImages);
  for (const char* ending : {".gz", ".xz"}) {
    const std::string packed = std::string(kTrainImages) + ending;
    write_sparse(folder, packed, terabyte);
    EXPECT_SAYS(folder.complaint("mnist"), "no file of this kind is larger, found 1099511627776 bytes");
    folder.remove(packed);
  }
}

// Zeros pack a thousand to one: what is unpacked ends soon behind what the publisher's file holds.
TEST(Compressed, UnpackingEndsWhereNoFileIsLarger) {
  const DataFolder folder;
  [[maybe_unused]] const TaskOptions options{.train_samples = 10, .test_samples = 10};
  for (const Packing& packing : packings()) {
    write_mnist(folder);
    folder.remove(kTrainLabels);
    const std::string labels = std::string(kTrainLabels) + "." + packing.name;
    folder.write(labels, packing.pack(Bytes(2'000'000)));
    EXPECT_SAYS(folder.complaint("mnist"), folder.file(labels) + ", offset 9424: expected the end");
    folder.remove(labels);
  }
#if LACONIC_ZLIB
  folder.write("cifar-10/data_batch_1.bin.gz", gz(Bytes(62'000'000)));
  EXPECT_SAYS(folder.complaint("cifar10", options), "data_batch_1.bin.gz, offset 61460000: expected the end");
#endif
}

TEST(Compressed, WithoutTheLibraryTheMessageSaysWhatToInstall) {
#if LACONIC_ZLIB && LACONIC_LZMA
  EXPECT_EQ(packings().size(), 2U);
#endif
#if !LACONIC_ZLIB
  EXPECT_SAYS(complaint_of({"gz", nullptr, from_gz}, {}, 1), "zlib1g-dev");
#endif
#if !LACONIC_LZMA
  EXPECT_SAYS(complaint_of({"xz", nullptr, from_xz}, {}, 1), "liblzma-dev");
#endif
}

TEST(Md5, IsThatOfTheRfc) {
  const auto sum = [](const std::string& text) { return md5(Bytes(text.begin(), text.end())); };
  EXPECT_EQ(sum(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(sum("abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(sum("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a");
}

TEST(Md5, OfAFileIsThatOfItsBytes) {
  const DataFolder folder;
  const Bytes bytes(200001, 'x');
  folder.write("file", bytes);
  EXPECT_EQ(md5_of_file(folder.file("file")), md5(bytes));
  EXPECT_THROW(md5_of_file(folder.file("none")), Error);
}

}  // namespace
}  // namespace laconic
