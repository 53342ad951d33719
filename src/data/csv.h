#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/data_file.h"

namespace laconic {

/// Rows of a file of comma-separated values (RFC 4180: fields in quotes may hold commas, line ends and doubled quotes).
class CsvReader {
 public:
  explicit CsvReader(const DataFile& file) : file_(file) {}

  /// The next row's fields, or false at the end. Error where a quote is not closed or text follows one.
  bool next(std::vector<std::string>& fields);
  /// Where the row that next() gave last begins.
  std::uint64_t row_offset() const { return row_offset_; }

 private:
  std::string field();
  std::string quoted_field();
  char peek() const { return static_cast<char>(file_.bytes()[at_]); }
  bool at_end() const { return at_ == file_.size(); }

  const DataFile& file_;
  std::uint64_t at_ = 0;
  std::uint64_t row_offset_ = 0;
};

}  // namespace laconic
