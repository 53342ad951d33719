#include "records/formats.h"

#include <charconv>

#include "laconic/version.h"
#include "records/json_record.h"

namespace laconic {
namespace {

using Json = nlohmann::ordered_json;

/// A number or a truth as such, any other text as text.
Json typed(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  std::uint64_t whole = 0;
  const char* end = text.data() + text.size();
  if (const auto read = std::from_chars(text.data(), end, whole); read.ec == std::errc() && read.ptr == end)
    return whole;
  double real = 0.0;
  if (const auto read = std::from_chars(text.data(), end, real); read.ec == std::errc() && read.ptr == end) return real;
  return text;
}

std::uint64_t sum_of(const std::vector<std::uint64_t>& values) {
  std::uint64_t sum = 0;
  for (const std::uint64_t value : values) sum += value;
  return sum;
}

void put_seconds(Json& json, double gradient, double select, const Traffic& traffic, double step) {
  json["gradient_seconds"] = gradient;
  json["select_seconds"] = select;
  json["encode_seconds"] = traffic.encode_seconds;
  json["exchange_seconds"] = traffic.exchange_seconds;
  json["decode_seconds"] = traffic.decode_seconds;
  json["step_seconds"] = step;
}

}  // namespace

std::string config_json(const RunConfig& config) {
  Json json;
  json["laconic"] = kVersion;
  for (const ConfigEntry& entry : entries_of(config)) json[entry.section][entry.key] = typed(entry.value);
  return json.dump(2) + "\n";
}

std::string metrics_line(const StepRecord& record) {
  const StepReport& report = record.report;
  Json json;
  json["step"] = record.step;
  json["batch_loss"] = json_number(record.batch_loss);
  if (record.loss) json["loss"] = json_number(record.loss);
  if (record.accuracy) json["accuracy"] = json_number(record.accuracy);
  if (record.perplexity) json["perplexity"] = json_number(record.perplexity);
  if (record.distance) json["distance"] = json_number(record.distance);
  if (record.residual_norm) json["residual_norm"] = json_number(record.residual_norm);
  json["payload_bytes"] = report.traffic.payload_bytes;
  json["sent_bytes"] = report.traffic.sent_bytes;
  json["received_bytes"] = report.traffic.received_bytes;
  json["sent_messages"] = report.traffic.sent_messages;
  if (report.within.payload_bytes > 0) json["inside_sent_bytes"] = report.within.sent_bytes;
  if (!record.sent_by_rank.empty()) {
    json["total_sent_bytes"] = sum_of(record.sent_by_rank);
    json["total_received_bytes"] = sum_of(record.received_by_rank);
    json["sent_bytes_by_rank"] = record.sent_by_rank;
    json["received_bytes_by_rank"] = record.received_by_rank;
  }
  json["bits"] = json_number(report.bits);
  json["rounds"] = report.rounds;
  json["skipped"] = report.skipped;
  json["undone"] = report.undone;
  json["extra"] = json_number(report.extra);
  put_seconds(json, record.gradient_seconds, report.select_seconds, report.traffic, record.step_seconds);
  return json.dump();
}

std::string result_json(const RunConfig& config, const RunResult& result) {
  Json json;
  if (config.task.name.empty()) {
    json["problem"] = config.problem;
  } else {
    json["task"] = config.task.name;
    json["model"] = config.task.model;
    json["device"] = result.device;
  }
  json["method"] = config.method;
  json["workers"] = config.workers;
  json["seed"] = config.seed;
  json["loss"] = json_number(result.loss);
  json["accuracy"] = json_number(result.accuracy);
  json["perplexity"] = json_number(result.perplexity);
  json["distance"] = json_number(result.distance);
  json["steps_by_rank"] = result.steps_by_rank;
  json["rounds"] = result.rounds;
  json["skipped"] = result.skipped;
  json["undone"] = result.undone;
  json["mean_bits"] = json_number(result.mean_bits);
  json["payload_bytes"] = result.traffic.payload_bytes;
  json["total_sent_bytes"] = result.total_sent_bytes;
  json["total_received_bytes"] = result.total_received_bytes;
  json["sent_bytes_by_rank"] = result.sent_by_rank;
  json["received_bytes_by_rank"] = result.received_by_rank;
  json["payload_bytes_by_rank"] = result.payload_by_rank;
  json["sent_messages_by_rank"] = result.messages_by_rank;
  if (!result.inside_sent_by_rank.empty()) {
    json["total_inside_sent_bytes"] = sum_of(result.inside_sent_by_rank);
    json["inside_sent_bytes_by_rank"] = result.inside_sent_by_rank;
  }
  put_seconds(json, result.gradient_seconds, result.select_seconds, result.traffic, result.step_seconds);
  json["wall_seconds"] = result.wall_seconds;
  return json.dump(2) + "\n";
}

}  // namespace laconic
