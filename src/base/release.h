// The release of this build, as Hello, `millpond --version` and /healthz say it.
#pragma once
#include <string_view>

namespace millpond {
inline constexpr std::string_view kRelease = "0.1.0";   // the same as project(VERSION) in CMakeLists.txt
}
