#pragma once

#include <string>
#include <vector>

#include "records/reader.h"

// What a page needs to draw runs: names, the table and the curves, thinned where they are long.

namespace laconic {

/// Rows that show a long table's curves: all if there are no more than kPlainRows, else of each of kStretches equal
/// stretches the rows with the lowest and the highest value of every column, and the first and the last row. Peaks
/// survive. NaN counts as no value.
std::vector<std::size_t> thinned_rows(const std::vector<std::vector<double>>& columns, std::size_t rows);
inline constexpr std::size_t kPlainRows = 1000;
inline constexpr std::size_t kStretches = 250;

/// A name a run, no two alike: its method; among runs of one method also the settings in which they differ where these
/// are one or two, else the folder.
std::vector<std::string> run_labels(const std::vector<RecordedRun>& runs);

/// One JSON object: version, subject, common settings, and for each run its label, folder, settings of its own, notes,
/// end, evaluations and steps as columns. No '<' in it, so that it may stand inside an HTML script element.
std::string report_json(const std::vector<RecordedRun>& runs);

}  // namespace laconic
