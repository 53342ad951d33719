#pragma once

// Everything a program needs that runs Laconic in one process. Other engines have headers of their own:
// <laconic/mpi.h>.

#include "laconic/call.h"
#include "laconic/communicator.h"
#include "laconic/error.h"
#include "laconic/key.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/threads.h"
#include "laconic/version.h"
#include "laconic/view.h"
