#include "records/report.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"
#include "laconic/version.h"

namespace laconic {
namespace {

using Json = nlohmann::ordered_json;
using Columns = std::vector<std::vector<double>>;

/// Whole numbers as such, and null for what is not known.
Json figure(double value) {
  if (!std::isfinite(value)) return {};
  if (std::floor(value) == value && std::fabs(value) < 9e15) return static_cast<std::int64_t>(value);
  return value;
}

/// The rows of a column.
Json column(const std::vector<double>& values, const std::vector<std::size_t>& rows) {
  Json list = Json::array();
  for (const std::size_t row : rows) list.push_back(figure(values[row]));
  return list;
}

/// A column with a value in it, or none.
void add_column(Json& json, const char* name, const std::vector<double>& values, const std::vector<std::size_t>& rows) {
  for (const double value : values) {
    if (!std::isnan(value)) {
      json[name] = column(values, rows);
      return;
    }
  }
}

template <class Row, class Value>
std::vector<double> values_of(const std::vector<Row>& rows, Value Row::*member) {
  std::vector<double> values;
  values.reserve(rows.size());
  for (const Row& row : rows) values.push_back(static_cast<double>(row.*member));
  return values;
}

Json evaluations_of(const RecordedRun& run) {
  const auto& all = run.evaluations;
  const Columns curves{values_of(all, &RecordedEvaluation::loss), values_of(all, &RecordedEvaluation::accuracy),
                       values_of(all, &RecordedEvaluation::perplexity),
                       values_of(all, &RecordedEvaluation::distance),
                       values_of(all, &RecordedEvaluation::residual_norm)};
  const auto rows = thinned_rows(curves, all.size());
  Json json{{"made", all.size()}};
  json["step"] = column(values_of(all, &RecordedEvaluation::step), rows);
  json["bytes"] = column(values_of(all, &RecordedEvaluation::sent_bytes), rows);
  json["seconds"] = column(values_of(all, &RecordedEvaluation::seconds), rows);
  add_column(json, "loss", curves[0], rows);
  add_column(json, "accuracy", curves[1], rows);
  add_column(json, "perplexity", curves[2], rows);
  add_column(json, "distance", curves[3], rows);
  add_column(json, "residual_norm", curves[4], rows);
  return json;
}

Json steps_of(const RecordedRun& run) {
  const Columns curves{values_of(run.steps, &RecordedStep::bits), values_of(run.steps, &RecordedStep::rounds)};
  const auto rows = thinned_rows(curves, run.steps.size());
  Json json{{"made", run.steps.size()}};
  json["step"] = column(values_of(run.steps, &RecordedStep::step), rows);
  json["bits"] = column(curves[0], rows);
  json["rounds"] = column(curves[1], rows);
  return json;
}

Json end_of(const RecordedRun& run) {
  const RecordedEnd& end = run.end;
  return {{"finished", end.finished},
          {"steps", run.steps.empty() ? 0 : run.steps.back().step},
          {"accuracy", figure(end.accuracy)},
          {"loss", figure(end.loss)},
          {"perplexity", figure(end.perplexity)},
          {"distance", figure(end.distance)},
          {"payload_bytes_per_step", figure(end.payload_bytes_per_step)},
          {"sent_bytes_per_step", figure(end.sent_bytes_per_step)},
          {"total_sent_bytes", figure(end.total_sent_bytes)},
          {"step_seconds", figure(end.step_seconds)},
          {"rounds", end.rounds},
          {"mean_bits", figure(end.mean_bits)}};
}

std::string setting(const RecordedRun& run, const std::string& key) {
  const auto found = run.settings.find(key);
  return found == run.settings.end() ? std::string() : found->second;
}

/// Settings that are not the same in all of the runs.
std::set<std::string> differing(const std::vector<const RecordedRun*>& runs) {
  std::set<std::string> keys;
  for (const RecordedRun* run : runs) {
    for (const auto& [key, value] : run->settings) {
      if (setting(*runs.front(), key) != value) keys.insert(key);
    }
  }
  for (const auto& [key, value] : runs.front()->settings) {
    for (const RecordedRun* run : runs) {
      if (!run->settings.contains(key)) keys.insert(key);
    }
  }
  return keys;
}

std::string folder_name(const std::string& folder) {
  return (std::filesystem::path(folder) / "").lexically_normal().parent_path().filename().string();
}

void make_unlike(std::vector<std::string>& labels) {
  std::set<std::string> taken;
  for (std::string& label : labels) {
    const std::string plain = label;
    for (int number = 2; !taken.insert(label).second; ++number) label = (plain + " #").append(std::to_string(number));
  }
}

}  // namespace

std::vector<std::size_t> thinned_rows(const std::vector<std::vector<double>>& columns, std::size_t rows) {
  std::set<std::size_t> kept;
  const bool plain = rows <= kPlainRows;
  for (std::size_t row = 0; plain && row < rows; ++row) kept.insert(kept.end(), row);
  if (plain) return {kept.begin(), kept.end()};
  kept = {0, rows - 1};
  for (std::size_t stretch = 0; stretch < kStretches; ++stretch) {
    const std::size_t first = rows * stretch / kStretches;
    const std::size_t end = rows * (stretch + 1) / kStretches;
    for (const auto& values : columns) {
      std::size_t lowest = first;
      std::size_t highest = first;
      for (std::size_t row = first; row < end; ++row) {
        if (values[row] < values[lowest] || std::isnan(values[lowest])) lowest = row;
        if (values[row] > values[highest] || std::isnan(values[highest])) highest = row;
      }
      kept.insert(std::isnan(values[lowest]) ? first : lowest);
      kept.insert(std::isnan(values[highest]) ? first : highest);
    }
  }
  return {kept.begin(), kept.end()};
}

std::vector<std::string> run_labels(const std::vector<RecordedRun>& runs) {
  std::map<std::string, std::vector<const RecordedRun*>> by_method;
  for (const RecordedRun& run : runs) by_method[run.method].push_back(&run);
  std::vector<std::string> labels;
  for (const RecordedRun& run : runs) {
    std::string label = run.method;
    const auto& kin = by_method[run.method];
    if (kin.size() > 1) {
      const auto keys = differing(kin);
      const bool few = !keys.empty() && keys.size() <= 2;
      for (const std::string& key : few ? keys : std::set<std::string>()) {
        label.append(" ").append(key, key.find('.') + 1).append("=").append(setting(run, key));
      }
      if (!few) label.append(" (").append(folder_name(run.folder)).append(")");
    }
    labels.push_back(label);
  }
  make_unlike(labels);
  return labels;
}

std::string report_json(const std::vector<RecordedRun>& runs) {
  std::vector<const RecordedRun*> all;
  all.reserve(runs.size());
  for (const RecordedRun& run : runs) all.push_back(&run);
  const auto labels = run_labels(runs);
  const auto own = differing(all);
  Json json{{"laconic", kVersion}, {"common", Json::array()}, {"runs", Json::array()}};
  for (const auto& [key, value] : runs.front().settings) {
    if (!own.contains(key) && !value.empty() && key != "laconic") json["common"].push_back({key, value});
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RecordedRun& run = runs[i];
    Json each{{"label", labels[i]}, {"folder", run.folder}, {"method", run.method}, {"subject", run.subject}};
    each["settings"] = Json::array();
    for (const std::string& key : own) {
      if (!setting(run, key).empty() && key != "method.name") each["settings"].push_back({key, setting(run, key)});
    }
    each["notes"] = run.notes;
    each["end"] = end_of(run);
    each["evaluations"] = evaluations_of(run);
    each["steps"] = steps_of(run);
    json["runs"].push_back(std::move(each));
  }
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return safe;
}

std::string joined_page(const PageParts& parts) {
  const std::pair<std::string_view, std::string_view> marked[] = {{"{{style}}", parts.style},
                                                                  {"{{data}}", parts.data},
                                                                  {"{{plotly}}", parts.plotly},
                                                                  {"{{script}}", parts.script}};
  std::string_view rest = parts.html;
  std::string page;
  page.reserve(rest.size() + parts.style.size() + parts.data.size() + parts.plotly.size() + parts.script.size());
  for (const auto& [mark, text] : marked) {
    const std::size_t at = rest.find(mark);
    LACONIC_CHECK(at != std::string_view::npos);
    page.append(rest.substr(0, at)).append(text);
    rest.remove_prefix(at + mark.size());
  }
  return page.append(rest);
}

}  // namespace laconic
