#include "laconic/call.h"

namespace laconic {
namespace {

const char* kind_name(CallKind kind) {
  switch (kind) {
    case CallKind::all_reduce: return "all_reduce";
    case CallKind::reduce_scatter: return "reduce_scatter";
    case CallKind::all_gather: return "all_gather";
    case CallKind::all_gather_varying: return "all_gather_varying";
    case CallKind::all_to_all: return "all_to_all";
    case CallKind::all_to_all_varying: return "all_to_all_varying";
    case CallKind::broadcast: return "broadcast";
    case CallKind::barrier: return "barrier";
  }
  return "unknown call";
}

}  // namespace

std::string describe(const Call& call) {
  std::string text = kind_name(call.kind);
  const std::string bytes = " of " + std::to_string(call.bytes) + " bytes";
  switch (call.kind) {
    case CallKind::all_reduce: return text + (call.reduction == Reduction::sum ? " (sum)" : " (max)") + bytes;
    case CallKind::reduce_scatter:
    case CallKind::all_gather:
    case CallKind::all_to_all: return text + bytes + " per rank";
    case CallKind::all_gather_varying: return text + bytes + " in all";
    case CallKind::broadcast: return text + bytes + " from rank " + std::to_string(call.root);
    case CallKind::all_to_all_varying:
    case CallKind::barrier: return text;
  }
  return text;
}

}  // namespace laconic
