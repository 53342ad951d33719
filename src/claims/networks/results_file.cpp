#include "claims/networks/results_file.h"

#include <charconv>
#include <cmath>

#include "laconic/error.h"
#include "records/json_record.h"
#include "records/parsed_text.h"

namespace laconic::claims {
namespace {

using Json = nlohmann::ordered_json;

/// Percent of ten thousand test samples has two decimals.
Json percent(double value) { return json_number(std::round(value * 100.0) / 100.0); }

Json json_of(const NetworkResult& result) {
  const NetworkRun& run = run_named(result.run);
  Json accuracies = Json::object();
  for (const auto& [step, accuracy] : result.accuracies) accuracies[std::to_string(step)] = percent(accuracy);
  Json json{{"run", result.run},
            {"seed", result.seed},
            {"method", run.method},
            {"workers", run.workers},
            {"steps", result.steps},
            {"accuracy", percent(result.accuracy)},
            {"independent", json_number(run.independent.end)},
            {"accuracy_at", std::move(accuracies)},
            {"loss", json_number(result.loss)},
            {"mean_bits", json_number(result.mean_bits)},
            {"rounds", result.rounds},
            {"sent_bytes_per_step", json_number(result.sent_bytes_per_step)},
            {"wall_seconds", result.wall_seconds}};
  if (std::isfinite(result.flatness.trace)) {
    json["hessian_trace"] = json_number(result.flatness.trace);
    json["hessian_trace_error"] = json_number(result.flatness.trace_error);
    json["hessian_largest"] = json_number(result.flatness.largest);
    json["hessian_largest_error"] = json_number(result.flatness.largest_error);
  }
  return json;
}

NetworkResult result_of(const JsonRecord& record) {
  if (!record.has("run") || !record.json().at("run").is_string()) record.refuse("has no \"run\"");
  NetworkResult result{.run = record.json().at("run").get<std::string>(),
                    .seed = record.needed_count("seed"),
                    .steps = static_cast<std::uint32_t>(record.needed_count("steps"))};
  run_named(result.run);
  if (!record.has("accuracy_at")) record.refuse("has no \"accuracy_at\"");
  const JsonRecord accuracies(record.json().at("accuracy_at"), "accuracy_at of " + result.run);
  for (const auto& [key, value] : accuracies.json().items()) {
    std::uint64_t step = 0;
    if (std::from_chars(key.data(), key.data() + key.size(), step).ec != std::errc()) {
      accuracies.refuse("has \"" + key + "\"; expected a number of steps");
    }
    result.accuracies[step] = accuracies.number(key.c_str());
  }
  result.accuracy = record.number("accuracy");
  result.loss = record.number("loss");
  result.mean_bits = record.number("mean_bits");
  result.rounds = record.count("rounds");
  result.sent_bytes_per_step = record.number("sent_bytes_per_step");
  result.wall_seconds = record.number("wall_seconds");
  result.flatness = {record.number("hessian_trace"), record.number("hessian_trace_error"),
                     record.number("hessian_largest"), record.number("hessian_largest_error")};
  return result;
}

}  // namespace

std::string results_json(const std::vector<NetworkResult>& results) {
  std::string text;
  for (const NetworkResult& result : results) text += (text.empty() ? "[\n " : ",\n ") + json_of(result).dump();
  return text.empty() ? "[]\n" : text + "\n]\n";
}

std::vector<NetworkResult> read_results_json(const std::string& path) {
  const auto text = text_of_file(path);
  if (!text) throw InvalidConfig("cannot read " + path + ": name a file that reproduce --deep --run-only --json made");
  const auto json = parse_json(*text, path);
  if (!json.is_array()) throw InvalidConfig(path + " is no JSON array of results");
  std::vector<NetworkResult> results;
  for (std::size_t i = 0; i < json.size(); ++i) {
    results.push_back(result_of(JsonRecord(json[i], path + ", entry " + std::to_string(i + 1))));
  }
  return results;
}

}  // namespace laconic::claims
