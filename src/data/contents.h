#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/task.h"

// What a task is made of, and who makes it; for this folder and its tests.

namespace laconic {

/// Samples one after the other: images as bytes, n·c·h·w, or texts as tokens, n·length.
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
  Samples train;
  Samples test;
  /// A channel's pixels become (x/255 − mean) / deviation.
  std::array<double, 3> mean{};
  std::array<double, 3> deviation{1.0, 1.0, 1.0};
  int crop_padding = 0;  ///< 0: no crop. Shift by up to so many pixels; what comes in from outside is black.
  bool flip = false;
  std::uint64_t seed = 1;
};

TaskContents make_digits(const TaskRow& row, const TaskOptions& options);
TaskContents make_idx(const TaskRow& row, const TaskOptions& options);
TaskContents make_cifar(const TaskRow& row, const TaskOptions& options);
TaskContents make_ag_news(const TaskRow& row, const TaskOptions& options);

/// What a reader should know of files that hold fewer or more samples than their publisher's, though they are whole as
/// far as their format can tell; empty where they do not.
std::string note_on_sizes(const TaskRow& row, std::size_t train, std::size_t test);

/// How many samples the caller gets: what was asked for, or all there are. InvalidConfig if more are wanted.
std::uint32_t samples_wanted(const char* what, int asked, std::uint32_t available);

}  // namespace laconic
