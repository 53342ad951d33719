#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "claims/claims.h"
#include "json_output.h"

namespace laconic::tools {

/// What `reproduce --deep` takes besides the claims' names.
struct DeepFlags {
  bool deep = false;
  bool run_only = false;
  std::string runs;  ///< names that commas separate
  std::string data;
  std::string text;
  std::string device = "cpu";
  std::string out = "runs/deep";
  int steps = 0;
  int first_seed = 1;
  int jobs = 0;
  double seconds = 0.0;
  std::string results;   ///< a file of results to judge in place of runs
  std::string markdown;  ///< a page whose tables are to be replaced

  void add_to(CLI::App& command);
  /// InvalidConfig where one of the others was given without --deep.
  void require_used() const;

 private:
  std::vector<const CLI::Option*> options_;
};

/// What both kinds of claims take.
struct ClaimFlags {
  std::vector<std::string> names;
  JsonOutput json;
  bool list = false;
  int seeds = 0;
};

/// The claims of the subject that were named, all where none was. InvalidConfig for a name that it does not have.
std::vector<const Claim*> chosen_claims(const ClaimFlags& flags, Subject subject);

/// Claims about networks, or their runs alone. Error where runs are to be made and the program was built without
/// PyTorch.
void reproduce_deep(const DeepFlags& deep, const ClaimFlags& flags);

}  // namespace laconic::tools
