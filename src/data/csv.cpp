#include "data/csv.h"

namespace laconic {

std::string CsvReader::quoted_field() {
  const std::uint64_t opened = at_++;
  std::string text;
  while (!at_end()) {
    const char c = peek();
    ++at_;
    if (c != '"') {
      text.push_back(c);
    } else if (!at_end() && peek() == '"') {
      text.push_back('"');
      ++at_;
    } else {
      return text;
    }
  }
  file_.wrong(at_, "a quote that closes the one at offset " + std::to_string(opened), "the end: the file is cut off");
}

std::string CsvReader::field() {
  if (!at_end() && peek() == '"') return quoted_field();
  std::string text;
  while (!at_end() && peek() != ',' && peek() != '\n' && peek() != '\r') {
    text.push_back(peek());
    ++at_;
  }
  return text;
}

bool CsvReader::next(std::vector<std::string>& fields) {
  fields.clear();
  while (!at_end() && (peek() == '\n' || peek() == '\r')) ++at_;
  row_offset_ = at_;
  if (at_end()) return false;
  for (;;) {
    fields.push_back(field());
    if (at_end() || peek() == '\n' || peek() == '\r') return true;
    if (peek() != ',') file_.wrong(at_, "a comma or the end of the line", std::string("\"") + peek() + '"');
    ++at_;
  }
}

}  // namespace laconic
