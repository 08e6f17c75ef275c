#include "disturbances.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace sluice::simulation {

Disturbances::Disturbances(uint32_t nodes, const Times& times)
    : nodes_(nodes), times_(times), pairs_(size_t{nodes} * nodes) {}

// From when to when the pair may have been apart; an empty time if nobody can have noticed.
std::pair<int64_t, int64_t> Disturbances::last_down(const Pair& pair, int64_t now_ns) const {
  const int64_t end_ns = pair.active > 0 ? now_ns : pair.end_ns;
  if (!pair.is_hard && end_ns - pair.begin_ns < times_.noticed_ns) return {0, -1};
  const int64_t until_ns = pair.active > 0 ? INT64_MAX : end_ns + times_.recovery_ns;
  return {pair.begin_ns, until_ns};
}

void Disturbances::begin_pair(Pair& pair, Severity severity, int64_t now_ns) const {
  const bool goes_on = pair.active > 0 || now_ns - pair.end_ns < times_.apart_ns;
  if (!goes_on) {
    if (const auto down = last_down(pair, now_ns); down.second >= 0) pair.down.push_back(down);
    pair.begin_ns = now_ns;
    pair.is_hard = false;
  }
  pair.is_hard = pair.is_hard || severity == Severity::hard;
  ++pair.active;
}

void Disturbances::begin(uint32_t one, uint32_t other, Severity severity, int64_t now_ns) {
  begin_pair(pair(one, other), severity, now_ns);
  if (one != other) begin_pair(pair(other, one), severity, now_ns);
}

void Disturbances::end(uint32_t one, uint32_t other, int64_t now_ns) {
  const auto end_pair = [now_ns](Pair& pair) {
    ASSERT(pair.active > 0);
    if (--pair.active == 0) pair.end_ns = now_ns;
  };
  end_pair(pair(one, other));
  if (one != other) end_pair(pair(other, one));
}

void Disturbances::begin(uint32_t node, Severity severity, int64_t now_ns) {
  for (uint32_t other = 0; other < nodes_; ++other) begin(node, other, severity, now_ns);
}

void Disturbances::end(uint32_t node, int64_t now_ns) {
  for (uint32_t other = 0; other < nodes_; ++other) end(node, other, now_ns);
}

bool Disturbances::may_fail(uint32_t one, uint32_t other, int64_t from_ns, int64_t now_ns) const {
  const Pair& of = pair(one, other);
  const auto overlaps = [&](const std::pair<int64_t, int64_t>& down) {
    return down.first <= now_ns && from_ns <= down.second;
  };
  return overlaps(last_down(of, now_ns)) || std::ranges::any_of(of.down, overlaps);
}

int64_t Disturbances::quiet_since_ns(uint32_t one, uint32_t other, int64_t now_ns) const {
  const Pair& of = pair(one, other);
  return of.active > 0 ? now_ns : of.end_ns;
}

}  // namespace sluice::simulation
