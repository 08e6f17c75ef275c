// Answers of REST over HTTP/1.1, as the clients of a simulated fleet read them.
#pragma once

#include <optional>

#include "../frames.hpp"

namespace sluice::simulation {

struct RestAnswer {
  int status = 0;
  bool is_degraded = false;  // by --peer-failure=open
};

// Takes the first answer out of the inbox; nothing: it has not arrived as a whole yet.
std::optional<RestAnswer> take_rest_answer(Bytes& inbox);

}  // namespace sluice::simulation
