// What the log says of quotas: who changed what at run time, and which subjects have none.
// Flow:   a worker, where a change was answered -> log_change(); where a batch was decided ->
//         note_unknown().
// Shape:  INFO `quota put`, `quota removed`, `usage reset`, `usage of all subjects reset`, with
//         `peer`, and `subject` and `quota` where there are; WARN `subject without a quota`, with
//         one of them, and how many times since the line before.
// Errors: none. Names above 1 KiB are cut.
// Lives:  one per worker. Allocates, but not for what nobody wants to read.
#pragma once

#include <cstdint>
#include <string_view>

#include "api/quota.hpp"
#include "base/time.hpp"
#include "policy/quota_book.hpp"

namespace sluice::server {

// Between two lines about unknown subjects: they may be all that is asked for.
inline constexpr int64_t unknown_pause_ns = 60 * base::ns_per_s;

// When a file names more subjects than there is room for: the others are refused (subjects_full).
void warn_of_too_many_names(const policy::QuotaRules& rules, uint32_t subjects_max);

class QuotaLog {
 public:
  explicit QuotaLog(uint32_t shard) noexcept : shard_(shard) {}

  // Whether the batch, which is answered, has changed what is to be told. One that puts, removes
  // or resets does nothing else.
  static bool tells(const api::QuotaBatch& batch) noexcept;
  // `peer` asked for it; empty: it has gone.
  static void log_change(const api::QuotaBatch& batch, std::string_view peer) noexcept;

  // A subject was named that has no quota; that many times by now.
  void note_unknown(std::string_view subject, uint64_t times, base::Now now) noexcept;

 private:
  const uint32_t shard_;
  uint64_t reported_times_ = 0;
  int64_t quiet_until_ns_ = 0;
};

}  // namespace sluice::server
