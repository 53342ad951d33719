#pragma once

#include <memory>
#include <string>

#include "laconic/place.h"

namespace laconic::test {

/// A place on the CPU that rehearses a device: its memory (of Buffers that name the place, and of the workspace) has no
/// access rights except inside the front door of a kernel or a codec (base/touch.h). A loop elsewhere over such memory
/// ends the program with a message; it contains what rehearse_as named last.
std::unique_ptr<Place> rehearsed_place(CpuOptions options = {.threads = 1});

/// What is being tested now, in a few words. Before ranks start.
void rehearse_as(const std::string& what);

}  // namespace laconic::test
