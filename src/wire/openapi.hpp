// GET /openapi.json: the machine-readable description of every endpoint (openapi.json beside this
// file, compiled in).
#pragma once

#include <string_view>

namespace sluice::wire {

std::string_view openapi_text() noexcept;

}  // namespace sluice::wire
