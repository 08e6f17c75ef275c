#include "quota/call_resolver.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "base/same_text.hpp"
#include "proto/key_hash.hpp"
#include "proto/reservation_id.hpp"

namespace sluice::quota {

using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaCode;
using limiter::MeterShape;

namespace {

// Whether all names have the same tag: a name without one does not go with the tag of its text.
[[gnu::noinline]] bool have_one_tag(std::span<const std::string_view> names) noexcept {
  const std::string_view tag = proto::routed_part(names[0]);
  return std::all_of(names.begin(), names.end(), [tag](std::string_view name) {
    const std::string_view part = proto::routed_part(name);
    return part == tag && part.size() < name.size();
  });
}

[[gnu::noinline]] bool are_different(std::span<const std::string_view> names) noexcept {
  for (auto name = names.begin(); name != names.end(); ++name) {
    const auto is_same = [name](std::string_view other) {
      return base::is_same_text(other, *name);
    };
    if (std::any_of(names.begin(), name, is_same)) return false;
  }
  return true;
}

// Whether a reservation may follow, with an id that leads here by the first subject's name alone.
bool needs_route(const QuotaCall& call, const Request& request) noexcept {
  const bool is_kept = call.op == api::QuotaOp::reserve || !call.client_id.empty();
  return is_kept && request.subjects[0] == no_subject;
}

// Within which a client's id names one call: calls with the subjects' common tag; without one,
// those with the same subjects, in whatever order, since the order decides which shard is their
// home.
XXH128_hash_t hash_scope(std::span<const std::string_view> names, uint64_t seed) noexcept {
  if (names.size() == 1 || have_one_tag(names)) {
    const std::string_view part = proto::routed_part(names[0]);
    return XXH3_128bits_withSeed(part.data(), part.size(), seed);
  }
  XXH128_hash_t sum{};
  for (const std::string_view name : names) {
    const XXH128_hash_t hashed = XXH3_128bits_withSeed(name.data(), name.size(), seed);
    sum.low64 += hashed.low64;
    sum.high64 += hashed.high64;
  }
  return sum;
}

}  // namespace

bool CallResolver::has_valid_names(QuotaBatch& batch, size_t index) const noexcept {
  if (are_valid(names_of(batch, batch.calls[index]))) return true;
  batch.answers[index].code = QuotaCode::invalid_subject;
  return false;
}

inline bool CallResolver::are_valid(std::span<const std::string_view> names) const noexcept {
  const auto is_valid = [this](std::string_view name) {
    return !name.empty() && name.size() <= name_bytes_max_;
  };
  if (names.size() == 1) return is_valid(names[0]);
  return !names.empty() && names.size() <= limits::call_subjects_max &&
         std::all_of(names.begin(), names.end(), is_valid) && are_different(names);
}

QuotaCode CallResolver::find_subjects(QuotaBatch& batch, const QuotaCall& call,
                                      const SubjectHashes& hashes, IfAbsent if_absent,
                                      LimitedSubjects& limited) noexcept {
  const std::span<const std::string_view> names = names_of(batch, call);
  if (!are_valid(names)) return QuotaCode::invalid_subject;
  for (uint8_t place = 0; place < names.size(); ++place) {
    const QuotaCode code =
        find_subject(batch, names[place], place, hashes[place], if_absent, true, limited);
    if (code != QuotaCode::ok) return code;
  }
  return QuotaCode::ok;
}

QuotaCode CallResolver::find_part(QuotaBatch& batch, const QuotaCall& call,
                                  const api::SpreadCall& spread, const SubjectHashes& hashes,
                                  IfAbsent if_absent, LimitedSubjects& limited,
                                  uint8_t& problem_place) noexcept {
  const std::span<const std::string_view> names = names_of(batch, call);
  problem_place = 0;
  if (!are_valid(names)) return QuotaCode::invalid_subject;
  // A call's names count once, however often it is asked for.
  const bool counts = batch.pass == api::Pass::ask && spread.rounds == 1;
  for (uint8_t place = 0; place < names.size(); ++place) {
    if (spread.shards[place] != shard_) continue;
    problem_place = place;
    const QuotaCode code =
        find_subject(batch, names[place], place, hashes[place], if_absent, counts, limited);
    if (code != QuotaCode::ok) return code;
  }
  return QuotaCode::ok;
}

// Adds the subject if it has a quota.
inline QuotaCode CallResolver::find_subject(QuotaBatch& batch, std::string_view name, uint8_t place,
                                            const NameHash& hash, IfAbsent if_absent, bool counts,
                                            LimitedSubjects& limited) noexcept {
  // Built in its place: copying it right after it was written would be slow.
  LimitedSubject& each = limited.emplace_back();
  each.place = place;
  const SubjectIndex index = subjects_.find(hash);
  if (index != no_subject) {
    subjects_.read_limited_subject(index, each);
  } else if (!add_absent(name, hash, if_absent, limited)) {
    return QuotaCode::subjects_full;
  }
  if (each.quota != nullptr) {
    batch.limits_checked += each.quota->limits_count;
    return QuotaCode::ok;
  }
  limited.pop_back();
  return note_unknown_subject(name, counts);
}

// The last limited subject is a subject that has no state yet. False: there is no room to make it.
bool CallResolver::add_absent(std::string_view name, const NameHash& hashed, IfAbsent if_absent,
                              LimitedSubjects& limited) noexcept {
  LimitedSubject& each = limited.back();
  const CurrentBook::OwnQuota own = book_.quota_of(name);
  if (own.quota == nullptr) return true;
  if (if_absent == IfAbsent::make) {
    const SubjectIndex made = subjects_.make(hashed, name, own, limited);
    if (made == no_subject) return false;
    subjects_.read_limited_subject(made, each);
    return true;
  }
  subjects_.add_absent(*own.quota, each);
  return true;
}

QuotaCode CallResolver::note_unknown_subject(std::string_view name, bool counts) noexcept {
  if (counts) ++statistics_.unknown_subjects;
  unknown_subject_ = name;
  return book_.denies_unknown() ? QuotaCode::unknown_subject : QuotaCode::ok;
}

Request CallResolver::request_of(const QuotaBatch& batch, const QuotaCall& call,
                                 const LimitedSubjects& limited) const noexcept {
  Request request = request_without_subjects(batch, call);
  for (const LimitedSubject& each : limited) request.subjects[each.place] = each.index;
  if (needs_route(call, request)) set_route(request, batch.subjects[call.first_subject]);
  if (api::leaves_output_tokens(call)) {
    request.amounts.output_tokens = default_output_tokens(limited, call.amounts);
  }
  return request;
}

Request CallResolver::request_of_part(const QuotaBatch& batch, const QuotaCall& call,
                                      const api::SpreadCall& spread,
                                      const LimitedSubjects& limited) const noexcept {
  Request request = request_without_subjects(batch, call);
  for (const LimitedSubject& each : limited) request.subjects[each.place] = each.index;
  if (spread.home() == shard_) {
    for (uint8_t place = 0; place < call.subjects_count; ++place) {
      if (spread.shards[place] == shard_) continue;
      request.subjects[place] = subject_of_shard(spread.shards[place]);
    }
    if (needs_route(call, request)) set_route(request, batch.subjects[call.first_subject]);
  }
  // Quotas and rules may have changed since the shards were asked what they leave.
  if (api::leaves_output_tokens(call)) {
    request.amounts.output_tokens =
        std::min(spread.output_tokens, default_output_tokens(limited, call.amounts));
  }
  return request;
}

inline Request CallResolver::request_without_subjects(const QuotaBatch& batch,
                                                      const QuotaCall& call) const noexcept {
  Request request{
      .amounts = call.amounts,
      .cached_input_tokens = call.cached_input_tokens,
      .connection = call.binding,
      .lifetime_ms = call.lifetime_ms != 0 ? call.lifetime_ms : book_.rules().lifetime_ms,
      .subjects_count = call.subjects_count,
      .is_used = api::charges_used(call.op)};
  request.subjects.fill(no_subject);
  if (!call.client_id.empty()) hash_client_id(request, batch, call);
  return request;
}

void CallResolver::set_route(Request& request, std::string_view name) const noexcept {
  request.route = proto::route_of_hash(proto::routing_hash(name, routing_seed_));
}

uint64_t CallResolver::default_output_tokens(const LimitedSubjects& limited,
                                             const api::Amounts& amounts) const noexcept {
  uint64_t output = book_.rules().output_tokens;
  for (const LimitedSubject& each : limited) {
    for (const MeterShape& shape : each.quota->shapes) {
      if (shape.ceiling != api::Ceiling::number) continue;
      if (shape.metric == api::Metric::output_tokens) output = std::min(output, shape.amount);
      if (shape.metric == api::Metric::tokens) {
        output = std::min(output, shape.amount - std::min(shape.amount, amounts.input_tokens));
      }
    }
  }
  return output;
}

void CallResolver::hash_client_id(Request& request, const QuotaBatch& batch,
                                  const QuotaCall& call) const noexcept {
  const std::span<const std::string_view> names = names_of(batch, call);
  const XXH128_hash_t scope = hash_scope(names, hash_seed_);
  const XXH128_hash_t hashed = XXH3_128bits_withSeed(call.client_id.data(), call.client_id.size(),
                                                     scope.low64 ^ (scope.high64 << 1));
  request.id = {.low = hashed.low64 | 1, .high = hashed.high64};
  XXH3_state_t state;
  XXH3_64bits_reset_withSeed(&state, hash_seed_);
  XXH3_64bits_update(&state, &call.amounts, sizeof call.amounts);
  if (api::charges_used(call.op)) {
    XXH3_64bits_update(&state, &call.op, sizeof call.op);
    XXH3_64bits_update(&state, &call.cached_input_tokens, sizeof call.cached_input_tokens);
  }
  for (uint32_t place = 0; place < call.subjects_count; ++place) {
    const std::string_view name = batch.subjects[call.first_subject + place];
    const size_t bytes = name.size();
    XXH3_64bits_update(&state, &bytes, sizeof bytes);
    XXH3_64bits_update(&state, name.data(), bytes);
  }
  request.request_hash = XXH3_64bits_digest(&state);
}

}  // namespace sluice::quota
