#pragma once

// The one include that knows the Catch2 version.
#include <catch2/catch.hpp>
