#pragma once

// Everything that a program needs to run Laconic in one process. Other engines have their own headers, such as
// <laconic/mpi.h>.

#include "laconic/call.h"
#include "laconic/communicator.h"
#include "laconic/error.h"
#include "laconic/gradient_view.h"
#include "laconic/key.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/threads.h"
#include "laconic/version.h"
#include "laconic/view.h"
