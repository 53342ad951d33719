#include "records/reader.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "laconic/error.h"
#include "laconic/view.h"
#include "methods/table.h"
#include "records/file_names.h"
#include "records/json_record.h"

namespace laconic {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kDepth = 3;  ///< folders in folders that are searched for runs

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void read_config(RecordedRun& run) {
  const JsonRecord config = read_json_record((fs::path(run.folder) / kConfigFile).string());
  for (const auto& [section, entries] : config.json().items()) {
    if (!entries.is_object()) {
      run.settings[section] = text_of(entries);
      continue;
    }
    for (const auto& [key, value] : entries.items()) {
      run.settings[std::string(section).append(".").append(key)] = text_of(value);
    }
  }
  const auto named = [&](const char* key) {
    const auto found = run.settings.find(key);
    return found == run.settings.end() ? std::string() : found->second;
  };
  run.method = named("method.name");
  if (run.method.empty()) config.refuse("names no method");
  run.subject = named("task.name").empty() ? named("problem.name") : named("task.name");
}

/// Lines of metrics.jsonl, one after the other.
class MetricsReader {
 public:
  explicit MetricsReader(RecordedRun& run) : run_(run), path_(fs::path(run.folder) / kMetricsFile) {}

  void read() {
    std::ifstream input(path_, std::ios::binary);
    if (!input) throw InvalidConfig("cannot read " + path_.string() + ": is it a run of laconic train --out?");
    std::string text;
    for (std::size_t line = 1; std::getline(input, text); ++line) {
      const bool ended = !input.eof();
      const std::string where = path_.string() + ", line " + std::to_string(line);
      Json json = parse_json(text, where);
      if (json.is_discarded()) {
        if (ended) throw InvalidConfig(where + " is no JSON");
        run_.notes.push_back("line " + std::to_string(line) + " of metrics.jsonl is cut and was left out");
        continue;
      }
      add(JsonRecord(std::move(json), where));
    }
  }

 private:
  void add(const JsonRecord& record) {
    const std::uint64_t step = record.needed_count("step");
    if (!run_.steps.empty() && step <= run_.steps.back().step) go_back_to(step);
    RecordedStep next = run_.steps.empty() ? RecordedStep{} : run_.steps.back();
    const auto or_zero = [](double value) { return std::isnan(value) ? 0.0 : value; };
    next.step = step;
    next.bits = or_zero(record.amount("bits"));
    next.rounds += record.count("rounds");
    next.payload_bytes += record.count("payload_bytes");
    next.sent_bytes += record.count("sent_bytes");
    next.seconds += or_zero(record.amount("step_seconds"));
    run_.steps.push_back(next);
    const bool evaluated = record.json().contains("loss") || record.json().contains("accuracy");
    if (evaluated) add_evaluation(record, next);
  }

  void add_evaluation(const JsonRecord& record, const RecordedStep& step) {
    const auto by_rank = record.counts("sent_bytes_by_rank");
    run_.by_rank = run_.by_rank && !by_rank.empty();
    run_.evaluations.push_back(
        {.step = step.step,
         .sent_bytes = by_rank.empty() ? step.sent_bytes : *std::max_element(by_rank.begin(), by_rank.end()),
         .seconds = step.seconds,
         .loss = record.number("loss"),
         .accuracy = record.share("accuracy"),
         .perplexity = record.amount("perplexity"),
         .distance = record.number("distance"),
         .residual_norm = record.amount("residual_norm")});
  }

  void go_back_to(std::uint64_t step) {
    run_.notes.push_back("resumed at step " + std::to_string(step));
    while (!run_.steps.empty() && run_.steps.back().step >= step) run_.steps.pop_back();
    while (!run_.evaluations.empty() && run_.evaluations.back().step >= step) run_.evaluations.pop_back();
  }

  RecordedRun& run_;
  fs::path path_;
};

/// Where ranks met at some evaluations only, the others' bytes are not known: rank 0's throughout.
void use_own_bytes(RecordedRun& run) {
  auto step = run.steps.begin();
  for (RecordedEvaluation& evaluation : run.evaluations) {
    while (step->step != evaluation.step) ++step;
    evaluation.sent_bytes = step->sent_bytes;
  }
}

void end_of_metrics(RecordedRun& run) {
  RecordedEnd& end = run.end;
  end.loss = end.accuracy = end.perplexity = end.distance = end.mean_bits = end.wall_seconds =
      std::numeric_limits<double>::quiet_NaN();
  if (!run.evaluations.empty()) {
    const RecordedEvaluation& last = run.evaluations.back();
    end.loss = last.loss;
    end.accuracy = last.accuracy;
    end.perplexity = last.perplexity;
    end.distance = last.distance;
  }
  if (run.steps.empty()) return;
  const RecordedStep& last = run.steps.back();
  const auto steps = static_cast<double>(run.steps.size());
  double bits = 0.0;
  for (const RecordedStep& step : run.steps) bits += step.bits;
  end.mean_bits = bits / steps;
  end.rounds = last.rounds;
  end.step_seconds = last.seconds / steps;
  end.payload_bytes_per_step = static_cast<double>(last.payload_bytes) / steps;
  end.total_sent_bytes = static_cast<double>(last.sent_bytes);
  if (run.by_rank && !run.evaluations.empty()) {
    end.total_sent_bytes = std::max(end.total_sent_bytes, static_cast<double>(run.evaluations.back().sent_bytes));
  }
  end.sent_bytes_per_step = end.total_sent_bytes / steps;
}

/// The largest of a sum by rank over its rank's steps.
double largest_per_step(const std::vector<std::uint64_t>& sums, const std::vector<std::uint64_t>& steps) {
  double largest = 0.0;
  for (std::size_t rank = 0; rank < std::min(sums.size(), steps.size()); ++rank) {
    if (steps[rank] > 0)
      largest = std::max(largest, static_cast<double>(sums[rank]) / static_cast<double>(steps[rank]));
  }
  return largest;
}

void end_of_result(RecordedRun& run, const JsonRecord& result) {
  RecordedEnd& end = run.end;
  end.finished = true;
  end.loss = result.number("loss");
  end.accuracy = result.share("accuracy");
  end.perplexity = result.amount("perplexity");
  end.distance = result.number("distance");
  if (result.has("mean_bits")) end.mean_bits = result.amount("mean_bits");
  end.wall_seconds = result.amount("wall_seconds");
  if (result.has("rounds")) end.rounds = result.count("rounds");
  const std::string device = result.text("device");
  if (!device.empty() && device != device_name(Device::cpu)) run.notes.push_back("computed on " + device);
  const auto steps = result.counts("steps_by_rank");
  const auto sent = result.counts("sent_bytes_by_rank");
  if (sent.empty() || sent.size() != steps.size()) return;
  end.total_sent_bytes = static_cast<double>(*std::max_element(sent.begin(), sent.end()));
  end.sent_bytes_per_step = largest_per_step(sent, steps);
  if (const auto inside = result.counts("inside_sent_bytes_by_rank"); !inside.empty()) {
    const bool sharded = run.settings.contains("run.replicas");
    run.notes.push_back((sharded ? "sharded model: what is sent goes to other replicas; each rank also sends "
                                 : "two levels: what is sent goes to other hosts; each rank also sends ") +
                        std::to_string(static_cast<std::uint64_t>(largest_per_step(inside, steps))) +
                        " bytes per step inside its " + (sharded ? "replica" : "host"));
  }
  if (const auto payload = result.counts("payload_bytes_by_rank"); !payload.empty()) {
    end.payload_bytes_per_step = largest_per_step(payload, steps);
  }
}

bool is_run(const fs::path& folder) {
  return fs::exists(folder / kMetricsFile) || fs::exists(folder / kConfigFile);
}

/// The runs at a path, in no order.
void find_runs(const fs::path& folder, int depth, std::vector<std::string>& found) {
  if (is_run(folder)) {
    found.push_back(folder.string());
    return;
  }
  if (depth == 0) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) find_runs(entry.path(), depth - 1, found);
  }
}

std::size_t place_in_table(const std::string& method) {
  const auto table = method_table();
  const auto row = std::find_if(table.begin(), table.end(), [&](const MethodRow& each) { return each.name == method; });
  return static_cast<std::size_t>(row - table.begin());
}

}  // namespace

RecordedRun read_run(const std::string& folder) {
  RecordedRun run;
  run.folder = folder;
  read_config(run);
  MetricsReader(run).read();
  if (!run.by_rank) {
    use_own_bytes(run);
    run.notes.emplace_back("ranks meet in rounds only: bytes along the way are those of rank 0");
  }
  end_of_metrics(run);
  const fs::path result = fs::path(folder) / kResultFile;
  if (fs::exists(result)) {
    end_of_result(run, read_json_record(result.string()));
    if (run.steps.empty()) run.notes.emplace_back("rank 0 made no step, so there are no curves");
  } else {
    if (run.steps.empty()) run.notes.emplace_back("has no step yet");
    run.notes.emplace_back("has no result.json: it was cut or is still going, and its last figures are shown");
  }
  return run;
}

std::vector<RecordedRun> read_runs(const std::vector<std::string>& paths) {
  std::vector<RecordedRun> runs;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) throw InvalidConfig("there is no folder " + path + ": name a folder that --out made");
    std::vector<std::string> folders;
    find_runs(path, kDepth, folders);
    if (folders.empty()) {
      throw InvalidConfig(path + " is no run and has none in it: laconic train --out DIR makes one");
    }
    std::vector<RecordedRun> here;
    here.reserve(folders.size());
    for (const std::string& folder : folders) here.push_back(read_run(folder));
    std::sort(here.begin(), here.end(), [](const RecordedRun& a, const RecordedRun& b) {
      return std::pair(place_in_table(a.method), a.folder) < std::pair(place_in_table(b.method), b.folder);
    });
    std::move(here.begin(), here.end(), std::back_inserter(runs));
  }
  return runs;
}

}  // namespace laconic
