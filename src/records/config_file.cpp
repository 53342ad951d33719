#include "records/config_file.h"

#include <toml++/toml.h>

#include <filesystem>
#include <fstream>

#include "laconic/error.h"
#include "records/parsed_text.h"

namespace laconic {
namespace {

/// A table of the file. The run's own settings stand outside of tables.
bool is_section(const std::string& key) { return key != "run" && is_config_section(key); }

[[noreturn]] void refuse(const std::string& path, const std::string& key) {
  throw InvalidConfig(path + ": " + key + " must be a number, a text, true or false, or a list of such");
}

std::string text_of_config(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    throw InvalidConfig("cannot read " + path + ": it is a folder; name the file, such as " + path + "/config.json");
  }
  auto text = text_of_file(path);
  if (!text) {
    throw InvalidConfig("cannot read " + path + ": is there such a file? Name a TOML file or a run's config.json");
  }
  return *std::move(text);
}

/// In place: a list may be long.
void append_part(std::string& list, const std::string& part) { list.append(list.empty() ? "" : ",").append(part); }

/// "run.toml, line 6".
template <class Node>
std::string place_in(const std::string& path, const Node& node) {
  const auto line = node.source().begin.line;
  return line != 0 ? path + ", line " + std::to_string(line) : path;
}

std::string toml_text(const std::string& path, const std::string& key, const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return std::to_string(whole->get());
  if (const auto* real = node.as_floating_point()) return text_of(real->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  const auto* array = node.as_array();
  if (array == nullptr) refuse(path, key);
  std::string list;
  for (const toml::node& part : *array) {
    if (part.is_array()) refuse(path, key);
    append_part(list, toml_text(path, key, part));
  }
  return list;
}

ConfigEntry toml_entry(const std::string& path, const std::string& section, const std::string& key,
                       const toml::node& node) {
  const std::string where = place_in(path, node);
  return {section, key, toml_text(where, key, node), where};
}

std::string json_text(const std::string& path, const std::string& key, const nlohmann::json& node) {
  if (node.is_string()) return node.get<std::string>();
  if (node.is_boolean()) return node.get<bool>() ? "true" : "false";
  if (node.is_number_integer()) return node.dump();
  if (node.is_number()) return text_of(node.get<double>());
  if (!node.is_array()) refuse(path, key);
  std::string list;
  for (const auto& part : node) {
    if (part.is_array()) refuse(path, key);
    append_part(list, json_text(path, key, part));
  }
  return list;
}

std::vector<ConfigEntry> from_toml(const std::string& path) {
  const std::string text = text_of_config(path);
  require_shallow_toml(text, path);
  toml::table file;
  try {
    file = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw InvalidConfig(place_in(path, error) + ": " + std::string(error.description()));
  }
  std::vector<ConfigEntry> entries;
  for (const auto& [key, node] : file) {
    const std::string name(key.str());
    if (const auto* table = node.as_table()) {
      if (!is_config_section(name)) {
        throw InvalidConfig(place_in(path, node) + ": there is no table [" + name +
                            "]; there are [problem], [task], [method] and [optimizer]");
      }
      for (const auto& [inner, value] : *table)
        entries.push_back(toml_entry(path, name, std::string(inner.str()), value));
    } else if (is_section(name)) {
      entries.push_back(toml_entry(path, name, "name", node));
    } else {
      entries.push_back(toml_entry(path, "run", name, node));
    }
  }
  return entries;
}

std::vector<ConfigEntry> from_json(const std::string& path) {
  const auto file = parse_json(text_of_config(path), path);
  if (!file.is_object()) throw InvalidConfig(path + " is no JSON object: give a config.json that a run has written");
  std::vector<ConfigEntry> entries;
  for (const auto& [name, node] : file.items()) {
    if (name == "laconic") continue;  // the version that wrote it
    if (node.is_object()) {
      for (const auto& [key, value] : node.items()) entries.push_back({name, key, json_text(path, key, value), path});
    } else if (is_section(name)) {
      entries.push_back({name, "name", json_text(path, name, node), path});
    } else {
      entries.push_back({"run", name, json_text(path, name, node), path});
    }
  }
  return entries;
}

}  // namespace

std::vector<ConfigEntry> read_config_file(const std::string& path) {
  return path.ends_with(".json") ? from_json(path) : from_toml(path);
}

bool is_config_of_run(const std::string& path) {
  using Json = nlohmann::json;
  std::ifstream input(path, std::ios::binary);
  // What is deeper than a section is not looked at, however deep it is.
  const auto shallow = [](int depth, Json::parse_event_t /*event*/, Json& /*value*/) { return depth <= 1; };
  const Json json = Json::parse(input, shallow, false);
  return json.is_object() && json.contains("laconic") && json.at("laconic").is_string() && json.contains("method") &&
         json.at("method").is_object();
}

}  // namespace laconic
