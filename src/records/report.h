#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "records/reader.h"

// What a page needs to draw runs: names, the table and the curves, thinned if they are long.

namespace laconic {

/// The rows that represent a long table's curves. Up to kPlainRows rows, all are kept. A longer table is divided into
/// kStretches equal ranges; of each range the rows with the lowest and the highest value of every column are kept, and
/// also the first and the last row of the table. So peaks survive. NaN counts as no value.
std::vector<std::size_t> thinned_rows(const std::vector<std::vector<double>>& columns, std::size_t rows);
inline constexpr std::size_t kPlainRows = 1000;
inline constexpr std::size_t kStretches = 250;

/// A unique name per run: its method. Runs of the same method also show the settings in which they differ if these are
/// one or two, otherwise the folder.
std::vector<std::string> run_labels(const std::vector<RecordedRun>& runs);

/// One JSON object: version, subject, common settings, and for each run its label, folder, own settings, notes, end,
/// evaluations and steps as columns. It contains no '<', so it can be put inside an HTML script element.
std::string report_json(const std::vector<RecordedRun>& runs);

/// The texts of a page. In `html` stand {{style}}, {{data}}, {{plotly}} and {{script}}, in this order.
struct PageParts {
  std::string_view html;
  std::string_view style;
  std::string_view data;  ///< what report_json returned
  std::string_view plotly;
  std::string_view script;
};

/// The page with its parts put in. The parts themselves are not searched for marks.
std::string joined_page(const PageParts& parts);

}  // namespace laconic
