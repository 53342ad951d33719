#include "base/check.h"

namespace laconic {
namespace {

[[noreturn]] void wrong_size(std::string_view name, std::size_t size, std::string_view relation, std::size_t expected) {
  throw InvalidConfig("view " + std::string(name) + " has " + std::to_string(size) + " entries, expected " +
                      std::string(relation) + std::to_string(expected) + ": pass a view of the registered size");
}

}  // namespace

void require_size(std::string_view name, std::size_t size, std::size_t expected) {
  if (size != expected) wrong_size(name, size, "", expected);
}

void require_at_least(std::string_view name, std::size_t size, std::size_t expected) {
  if (size < expected) wrong_size(name, size, "at least ", expected);
}

void require_same_device(std::string_view name, Device device, Device expected) {
  if (device == expected) return;
  throw InvalidConfig("view " + std::string(name) + " lies on " + device_name(device) + ", the place works on " +
                      device_name(expected) + ": copy the view there, or use a place on its device");
}

void no_cuda_version(std::string_view what) {
  throw InvalidConfig(std::string(what) +
                      " has no CUDA version in this build: copy its views to the CPU and use a place there");
}

}  // namespace laconic
