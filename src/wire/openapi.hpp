// GET /openapi.json: every endpoint, described for programs (openapi.json beside this file,
// compiled in).
#pragma once

#include <string_view>

namespace sluice::wire {

std::string_view openapi_text() noexcept;

}  // namespace sluice::wire
