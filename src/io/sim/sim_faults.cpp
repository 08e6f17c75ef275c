#include "io/sim/sim_faults.hpp"

namespace sluice::io {
namespace {

struct Row {
  std::string_view name;
  double worst_rate;  // each time the fault could happen
};

// clang-format off
constexpr std::array<Row, faults_count> rows = {{
    {"split_receive", 0.9},
    {"delayed_receive", 0.7},
    {"no_buffer", 0.3},
    {"multishot_ended", 0.5},
    {"late_bytes", 0.9},
    {"short_send", 0.8},
    {"delayed_sent", 0.7},
    {"peer_window_full", 0.0},  // caused by the clients; counted here
    {"reset_idle", 0.004},
    {"reset_mid_receive", 0.004},
    {"reset_mid_send", 0.02},
    {"reordered", 1.0},
    {"accept_failed", 0.3},
    {"delayed_closed", 0.8},
    {"spurious_wake", 0.2},
    {"buffers_gone", 0.02},
    {"overflow", 0.5},
    {"clock_jump", 0.01},
    {"wall_clock_back", 0.02},
    {"delayed_wake", 0.8},
    {"release_late_bytes", 0.9},
    {"delayed_released", 0.8},
    {"reset_in_transit", 0.05},
    {"adopt_refused", 0.2},
}};
// clang-format on

}  // namespace

std::string_view fault_name(Fault fault) noexcept {
  return rows[static_cast<uint32_t>(fault)].name;
}

void Faults::draw() noexcept {
  for (uint32_t fault = 0; fault < faults_count; ++fault) {
    const bool off = random_.chance(0.25);
    const double share = static_cast<double>(1ULL << random_.below(6));
    rates_[fault] = off ? 0 : rows[fault].worst_rate / share;
  }
}

}  // namespace sluice::io
