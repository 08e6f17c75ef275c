// Logs changes of quotas at run time, with the client that asked for them, and subjects without
// quotas.
// Flow:   a worker, where a change was answered -> log_change(); where a batch was decided ->
//         note_unknown().
// Shape:  INFO `quota put`, `quota removed`, `usage reset`, `usage of all subjects reset`, with
//         `peer`, and with `subject` and `quota` if there are any; of quotas that another node
//         hands over one line, with their number; WARN `subject without a quota`,
//         with one such subject, and how many times since the last such line.
// Errors: none. Names above 1 KiB are cut.
// Lives:  one per worker. Allocates, but not for lines below the log's level.
#pragma once

#include <cstdint>
#include <string_view>

#include "api/quota.hpp"
#include "base/time.hpp"
#include "policy/quota_book.hpp"

namespace sluice::server {

// Between two lines about unknown subjects: every request may name one.
inline constexpr int64_t unknown_pause_ns = 60 * base::ns_per_s;

// Warns if a file names more subjects than there is room for: the others are refused
// (subjects_full).
void warn_of_too_many_names(const policy::QuotaRules& rules, uint32_t subjects_max);

class QuotaLog {
 public:
  explicit QuotaLog(uint32_t shard) noexcept : shard_(shard) {}

  // Whether the batch, which is answered, has made a change that is to be logged. One that puts,
  // removes or resets does nothing else.
  static bool is_logged(const api::QuotaBatch& batch) noexcept;
  // `peer`: the client that asked for it; empty: it has left.
  static void log_change(const api::QuotaBatch& batch, std::string_view peer) noexcept;

  // A request named a subject without a quota; `times`: how often any was named up to now.
  void note_unknown(std::string_view subject, uint64_t times, base::Now now) noexcept;

 private:
  const uint32_t shard_;
  uint64_t reported_times_ = 0;
  int64_t quiet_until_ns_ = 0;
};

}  // namespace sluice::server
