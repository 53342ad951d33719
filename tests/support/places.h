#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "support/support.h"

namespace laconic::test {

/// Makes the place of a rank.
using PlaceMaker = std::function<std::unique_ptr<Place>(int rank)>;

/// Calls body(place) for 1, 2 and 3 threads, at the best SIMD level of this machine.
template <class Body>
void for_each_thread_count(Body&& body) {
  for (const int threads : {1, 2, 3}) {
    SCOPED_TRACE("threads " + std::to_string(threads));
    Place place({.threads = threads});
    body(place);
  }
}

/// Calls body(place) for every SIMD level of this machine and 1, 2 and 3 threads.
template <class Body>
void for_each_place(Body&& body) {
  for (const SimdLevel level : available_levels()) {
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(std::string(simd_name(level)) + ", threads " + std::to_string(threads));
      Place place({.threads = threads, .simd = level});
      body(place);
    }
  }
}

}  // namespace laconic::test
