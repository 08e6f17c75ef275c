// The quotas that were put for subjects and removed at run time since the last cut.
// Flow:   Engine::put(), remove() -> the next cut writes them, at its instant -> the state file's
//         table of quotas put at run time.
// Shape:  of each subject the last change alone counts.
// Bounds: one for each name that had a quota put since the last cut: as many as calls that answered
//         ok, while the state is written; when it is not, such calls are refused.
// Lives:  one thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "api/limit.hpp"
#include "state/state_sink.hpp"

namespace sluice::quota {

class QuotaChanges {
 public:
  explicit QuotaChanges(bool is_on) noexcept : is_on_(is_on) {}

  void put(std::string_view name, const api::Quota& quota, int64_t wall_ns);
  void remove(std::string_view name, int64_t wall_ns);
  bool has_any() const noexcept { return !changes_.empty(); }

  // Passes them on; then there are none.
  void write(state::StateSink& sink) noexcept;

 private:
  struct Change {
    std::optional<std::string> quota;  // as JSON; none: it was removed
    int64_t wall_ms = 0;
  };

  const bool is_on_;
  std::unordered_map<std::string, Change> changes_;
};

}  // namespace sluice::quota
