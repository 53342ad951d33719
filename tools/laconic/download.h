#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/task.h"

namespace laconic::tools {

/// Runs a program found in PATH, without a shell, and waits. Its exit status; 128 + signal if one ended it; −1 if there
/// is no such program.
int run_program(const std::vector<std::string>& arguments);

/// Fetches what the task lacks into its folder below data_folder, by curl or wget. Files are written beside, compared
/// with the publisher's size and sum, and renamed, so that a file with a right name is whole. `tell` gets a line for
/// each file. Error if one cannot be fetched.
void download_task(const TaskRow& row, const std::string& data_folder,
                   const std::function<void(const std::string&)>& tell);

/// Which of the files that are not here go where, for hands: some lines.
std::string by_hand(const TaskRow& row, const std::string& data_folder);

}  // namespace laconic::tools
