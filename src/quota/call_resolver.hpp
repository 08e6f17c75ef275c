// Reads calls about subjects: which subjects a call names, and what it asks to reserve.
// Flow:   a call of a batch and the hashes of its names -> find_subjects() -> LimitedSubjects
//         -> request_of() -> Request.
// Errors: a QuotaCode other than `ok` says why the call cannot be decided.
// Lives:  one thread only; unknown_subject() is a view of the batch that was read last.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "api/quota.hpp"
#include "base/assert.hpp"
#include "quota/current_book.hpp"
#include "quota/limited_subjects.hpp"
#include "quota/quota_store.hpp"
#include "quota/request.hpp"
#include "quota/subject_table.hpp"

namespace sluice::quota {

// What to do about a subject that has no state yet.
enum class IfAbsent : uint8_t { make, only_find };

class CallResolver {
 public:
  // `statistics.unknown_subjects` counts each name of a subject without a quota.
  CallResolver(const Options& options, CurrentBook& book, SubjectTable& subjects,
               Statistics& statistics) noexcept
      : shard_(static_cast<api::ShardId>(options.shard)),
        name_bytes_max_(options.name_bytes_max),
        hash_seed_(options.name_seed),
        routing_seed_(options.routing_seed),
        book_(book),
        subjects_(subjects),
        statistics_(statistics) {}

  void begin_batch() noexcept { unknown_subject_ = {}; }

  // Whether the call has at least one name and at most the maximum, all different, none empty or
  // too long. If not, sets the answer's code.
  bool has_valid_names(api::QuotaBatch& batch, size_t index) const noexcept;

  // Collects the subjects of the call that have a quota, and counts their limits as checked; skips
  // unknown ones where the rules allow them.
  api::QuotaCode find_subjects(api::QuotaBatch& batch, const api::QuotaCall& call,
                               const SubjectHashes& hashes, IfAbsent if_absent,
                               LimitedSubjects& limited) noexcept;

  // The same for the subjects of one shard. `problem_place`: of the subject that the code is about.
  api::QuotaCode find_part(api::QuotaBatch& batch, const api::QuotaCall& call,
                           const api::SpreadCall& spread, const SubjectHashes& hashes,
                           IfAbsent if_absent, LimitedSubjects& limited,
                           uint8_t& problem_place) noexcept;

  Request request_of(const api::QuotaBatch& batch, const api::QuotaCall& call,
                     const LimitedSubjects& limited) const noexcept;
  // The part of a request that this shard has.
  Request request_of_part(const api::QuotaBatch& batch, const api::QuotaCall& call,
                          const api::SpreadCall& spread,
                          const LimitedSubjects& limited) const noexcept;
  // The output of a request that gives none: the server's default, or what the tightest of these
  // limits leaves beside the input, so that a small quota does not refuse the first call.
  uint64_t default_output_tokens(const LimitedSubjects& limited,
                                 const api::Amounts& amounts) const noexcept;

  // The last subject of the batch that has no quota; empty: there is none.
  std::string_view unknown_subject() const noexcept { return unknown_subject_; }

 private:
  static std::span<const std::string_view> names_of(const api::QuotaBatch& batch,
                                                    const api::QuotaCall& call) noexcept {
    DEBUG_ASSERT(call.first_subject + size_t{call.subjects_count} <= batch.subjects.size());
    return std::span(batch.subjects).subspan(call.first_subject, call.subjects_count);
  }
  bool are_valid(std::span<const std::string_view> names) const noexcept;
  [[gnu::noinline]] bool add_absent(std::string_view name, const NameHash& hashed,
                                    IfAbsent if_absent, LimitedSubjects& limited) noexcept;
  [[gnu::noinline]] api::QuotaCode note_unknown_subject(std::string_view name,
                                                        bool counts) noexcept;
  [[gnu::noinline]] void set_route(Request& request, std::string_view name) const noexcept;
  api::QuotaCode find_subject(api::QuotaBatch& batch, std::string_view name, uint8_t place,
                              const NameHash& hash, IfAbsent if_absent, bool counts,
                              LimitedSubjects& limited) noexcept;
  Request request_without_subjects(const api::QuotaBatch& batch,
                                   const api::QuotaCall& call) const noexcept;
  [[gnu::noinline]] void hash_client_id(Request& request, const api::QuotaBatch& batch,
                                        const api::QuotaCall& call) const noexcept;

  const api::ShardId shard_;
  const uint32_t name_bytes_max_;
  const uint64_t hash_seed_;
  const uint64_t routing_seed_;
  CurrentBook& book_;
  SubjectTable& subjects_;
  Statistics& statistics_;
  std::string_view unknown_subject_;
};

}  // namespace sluice::quota
