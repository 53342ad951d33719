#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/data_file.h"

namespace laconic {

/// Reads rows of comma-separated values (RFC 4180: quoted fields may contain commas, line ends and doubled quotes).
class CsvReader {
 public:
  explicit CsvReader(const DataFile& file) : file_(file) {}

  /// Reads the fields of the next row; returns false at the end. Throws Error if a quote is not closed or text follows
  /// a closing quote.
  bool next(std::vector<std::string>& fields);
  /// The offset of the row that next() returned last.
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
