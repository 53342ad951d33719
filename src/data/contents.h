#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/task.h"

// The contents of a task and the functions that make it. For this folder and its tests.

namespace laconic {

/// Samples one after another: images as bytes, n·c·h·w, or texts as tokens, n·length. Windows of characters are parts
/// of one text: `tokens` is that text, and a window's label is where in it the window begins.
struct Samples {
  std::vector<int> labels;
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> tokens;
};

struct TaskContents {
  std::string name;
  std::string note;
  InputShape input;
  int classes = 0;
  Metric metric = Metric::accuracy;
  std::string alphabet;  ///< of characters: the byte of each token
  Samples train;
  Samples test;
  /// A channel's pixels become (x/255 − mean) / deviation.
  std::array<double, 3> mean{};
  std::array<double, 3> deviation{1.0, 1.0, 1.0};
  int crop_padding = 0;  ///< crops shift an image by up to this many pixels, with black outside; 0: no crop
  bool flip = false;
  std::uint64_t seed = 1;
};

TaskContents make_digits(const TaskRow& row, const TaskOptions& options);
TaskContents make_idx(const TaskRow& row, const TaskOptions& options);
TaskContents make_cifar(const TaskRow& row, const TaskOptions& options);
TaskContents make_ag_news(const TaskRow& row, const TaskOptions& options);
TaskContents make_text(const TaskRow& row, const TaskOptions& options);
TaskContents make_text_of_file(const TaskRow& row, const TaskOptions& options);

/// A note for the user if the files contain fewer or more samples than the publisher's, although they are complete as
/// far as their format shows. Otherwise empty.
std::string note_on_sizes(const TaskRow& row, std::size_t train, std::size_t test);

/// The number of samples that the caller gets: the number asked for, or all. Throws InvalidConfig if there are fewer
/// than asked for.
std::uint32_t samples_wanted(const char* what, int asked, std::uint32_t available);

}  // namespace laconic
