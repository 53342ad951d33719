#include <cstdlib>
#include <filesystem>

#include "base/suggestion.h"
#include "data/contents.h"
#include "laconic/error.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;

#define LACONIC_MNIST "https://ossci-datasets.s3.amazonaws.com/mnist/"
#define LACONIC_FASHION "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
#define LACONIC_CIFAR "https://www.cs.toronto.edu/~kriz/"
#define LACONIC_SHAKESPEARE "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/"
#define LACONIC_AG_NEWS "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/"

// clang-format off
const std::vector<TaskFile>& idx_files() {
  static const std::vector<TaskFile> files{{"train-images-idx3-ubyte", true}, {"train-labels-idx1-ubyte", true},
                                           {"t10k-images-idx3-ubyte", true}, {"t10k-labels-idx1-ubyte", true}};
  return files;
}

/// As transformers are trained.
constexpr TaskTraining kTransformer{.method = "adam", .optimizer = "adam", .learning_rate = 1e-3, .cosine = true, .clip = 1.0};

const std::vector<TaskRow>& rows() {
  static const std::vector<TaskRow> table{
      {"digits", "digits 0-9 that the program draws, 28x28; needs no files", "drawn from the seed", "cnn", 10, 10000, 2000,
       {}, {}, {}, make_digits},
      {"fashion-mnist", "ten kinds of clothes, 28x28 grey", "Xiao, Rasul, Vollgraf 2017", "cnn", 10, 60000, 10000,
       {"fashion-mnist"}, idx_files(),
       {{LACONIC_FASHION "train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26421880, false},
        {LACONIC_FASHION "train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe", 29515, false},
        {LACONIC_FASHION "t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79", 4422102, false},
        {LACONIC_FASHION "t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310", 5148, false}},
       make_idx},
      {"mnist", "handwritten digits, 28x28 grey", "LeCun, Cortes, Burges 1998", "cnn", 10, 60000, 10000,
       {"mnist"}, idx_files(),
       {{LACONIC_MNIST "train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 0, false},
        {LACONIC_MNIST "train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432", 0, false},
        {LACONIC_MNIST "t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3", 0, false},
        {LACONIC_MNIST "t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c", 0, false}},
       make_idx},
      {"cifar10", "ten kinds of things, 32x32 colour; cropped and flipped", "Krizhevsky 2009", "resnet20", 10, 50000, 10000,
       {"cifar-10", "cifar-10-batches-bin", "cifar10"},
       {{"data_batch_1.bin", true}, {"data_batch_2.bin", true}, {"data_batch_3.bin", true}, {"data_batch_4.bin", true},
        {"data_batch_5.bin", true}, {"test_batch.bin", true}},
       {{LACONIC_CIFAR "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", 170052171, true}}, make_cifar},
      {"cifar100", "a hundred kinds of things, 32x32 colour; cropped and flipped", "Krizhevsky 2009", "resnet20", 100, 50000, 10000,
       {"cifar-100", "cifar-100-binary", "cifar100"}, {{"train.bin", true}, {"test.bin", true}},
       {{LACONIC_CIFAR "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", 0, true}}, make_cifar},
      {"ag-news", "news in four topics, words as tokens", "Zhang, Zhao, LeCun 2015", "bilstm", 4, 120000, 7600,
       {"ag-news", "ag_news_csv"}, {{"train.csv", false}, {"test.csv", true}},
       {{LACONIC_AG_NEWS "train.csv", "b1a00f826fdfbd249f79597b59e1dc12", 0, false},
        {LACONIC_AG_NEWS "test.csv", "d52ea96a97a2d943681189a97654912d", 1857427, false}},
       make_ag_news},
      {"text", "characters of a play that the program writes, or of the file --text; needs no files", "written from the seed",
       "gpt-small", 0, 900000, 100000, {}, {}, {}, make_text, true, kTransformer},
      {"tiny-shakespeare", "characters of Shakespeare's plays, 1.1 MB", "Karpathy 2015", "gpt-small", 0, 1003854, 111540,
       {"tiny-shakespeare", "tinyshakespeare"}, {{"input.txt", true}},
       {{LACONIC_SHAKESPEARE "input.txt", "6fb458f1232090904fb40fe944165e91", 1115394, false}}, make_text_of_file, false, kTransformer},
  };
  return table;
}
// clang-format on

}  // namespace

std::span<const TaskRow> task_table() { return rows(); }

const TaskRow& task_row(std::string_view name) { return row_named(task_table(), name, "task"); }

std::string model_for(std::string_view task, const std::string& named) {
  return named.empty() ? task_row(task).model : named;
}

std::shared_ptr<const Task> make_task(std::string_view name, const TaskOptions& options) {
  const TaskRow& row = task_row(name);
  TaskOptions filled = options;
  if (!options.text_file.empty() && !row.takes_text_file) {
    throw InvalidConfig(std::string("the task ") + row.name + " reads no text file, got " + options.text_file +
                        ": use the task text, or leave the file out");
  }
  if (filled.data_folder.empty()) filled.data_folder = default_data_folder();
  TaskContents contents = row.make(row, filled);
  contents.name = row.name;
  if (row.classes > 0) contents.classes = row.classes;
  contents.seed = options.seed;
  if (!options.augment) {
    contents.crop_padding = 0;
    contents.flip = false;
  }
  return std::make_shared<const Task>(std::move(contents));
}

std::string note_on_sizes(const TaskRow& row, std::size_t train, std::size_t test) {
  if (train == row.train_size && test == row.test_size) return "";
  return std::string(row.name) + ": the files hold " + std::to_string(train) + " training and " + std::to_string(test) +
         " test samples, the publisher's " + std::to_string(row.train_size) + " and " + std::to_string(row.test_size);
}

std::uint32_t samples_wanted(const char* what, int asked, std::uint32_t available) {
  if (asked < 0 || static_cast<std::uint32_t>(asked) > available) {
    throw InvalidConfig(std::string(what) + " must be in [0, " + std::to_string(available) + "], got " +
                        std::to_string(asked) + ": 0 takes all");
  }
  return asked == 0 ? available : static_cast<std::uint32_t>(asked);
}

std::string default_data_folder() {
  const char* folder = std::getenv("LACONIC_DATA");
  return folder != nullptr && *folder != '\0' ? folder : "data";
}

std::string find_task_file(const TaskRow& row, const std::string& data_folder, std::string_view file) {
  for (const char* folder : row.folders) {
    for (const char* ending : {"", ".gz", ".xz"}) {
      const fs::path path = fs::path(data_folder) / folder / (std::string(file) + ending);
      std::error_code ignored;
      if (fs::is_regular_file(path, ignored)) return path.string();
    }
  }
  return {};
}

}  // namespace laconic
