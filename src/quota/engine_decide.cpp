// Decisions over all limits of all subjects of a call: reserve, check, record.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "base/assert.hpp"
#include "proto/key_hash.hpp"
#include "quota/answer_holders.hpp"
#include "quota/answer_limits.hpp"
#include "quota/answer_subjects.hpp"
#include "quota/engine.hpp"

namespace sluice::quota {

using api::QuotaAnswer;
using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using limiter::Meter;
using limiter::MeterShape;

namespace {

// All with the same tag: a name without one is not with the tag of its text.
[[gnu::noinline]] bool have_one_tag(std::span<const std::string_view> names) noexcept {
  const std::string_view tag = proto::routed_part(names[0]);
  return std::all_of(names.begin(), names.end(), [tag](std::string_view name) {
    const std::string_view part = proto::routed_part(name);
    return part == tag && part.size() < name.size();
  });
}

[[gnu::noinline]] bool are_different(std::span<const std::string_view> names) noexcept {
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (std::find(names.begin(), name, *name) != name) return false;
  }
  return true;
}

}  // namespace

void Engine::decide(QuotaBatch& batch, base::Now now, api::CoreId origin) noexcept {
  clock_.begin(now);
  unknown_subject_ = {};
  for (size_t first = 0; first < batch.calls.size(); first += prepared_.size()) {
    const size_t count = std::min(prepared_.size(), batch.calls.size() - first);
    prepare(batch, first, count);
    for (size_t index = 0; index < count; ++index) {
      if (batch.calls[first + index].core != options_.shard) continue;
      clock_.next_call();
      decide_one(batch, first + index, prepared_[index], origin);
    }
  }
  subjects_.sweep(1, nobody);
}

void Engine::decide_one(QuotaBatch& batch, size_t index, const SubjectHashes& hashes,
                        api::CoreId origin) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  switch (call.op) {
    case QuotaOp::reserve:
      return reserve(batch, index, hashes, origin);
    case QuotaOp::check:
      return check(batch, index, hashes);
    case QuotaOp::record:
      return record(batch, index, hashes);
    case QuotaOp::settle:
      return settle(call, answer);
    case QuotaOp::cancel:
      return cancel(call, answer);
    case QuotaOp::extend:
      return extend(call, answer);
    case QuotaOp::show:
      return answer_reservation(batch, index, sources());
    case QuotaOp::usage:
      if (has_valid_names(batch, index)) answer_usage(batch, index, hashes, sources());
      return;
    case QuotaOp::page:
      return answer_page(batch, index, sources());
    case QuotaOp::holders:
      if (call.subjects_count > 0 && !has_valid_names(batch, index)) return;
      return answer_holders(batch, index, hashes, sources());
    case QuotaOp::put:
      return put(batch, index, hashes[0]);
    case QuotaOp::remove:
      return remove(batch, index, hashes[0]);
    case QuotaOp::reset:
      return reset(batch, index, hashes[0]);
    case QuotaOp::reset_all:
      reset_all();
      answer.code = QuotaCode::ok;
      return;
    case QuotaOp::end_tie:
      end_connection(call.tie);
      answer.code = QuotaCode::ok;
      return;
  }
}

bool Engine::are_valid(std::span<const std::string_view> names) const noexcept {
  if (names.empty() || names.size() > limits::call_subjects_max) return false;
  const bool have_room = std::all_of(names.begin(), names.end(), [this](std::string_view name) {
    return !name.empty() && name.size() <= options_.name_bytes_max;
  });
  return have_room && (names.size() == 1 || are_different(names));
}

bool Engine::has_valid_names(QuotaBatch& batch, size_t index) const noexcept {
  if (are_valid(names_of(batch, batch.calls[index]))) return true;
  batch.answers[index].code = QuotaCode::invalid_subject;
  return false;
}

// The members of the call's party: the subjects that have a quota. Those without one are unknown:
// allowed ones are not in it. Anything but `ok` is why the call cannot be looked at.
QuotaCode Engine::gather(const QuotaBatch& batch, const QuotaCall& call,
                         const SubjectHashes& hashes, bool may_make, Party& party) noexcept {
  const std::span<const std::string_view> names = names_of(batch, call);
  if (!are_valid(names)) return QuotaCode::invalid_subject;
  if (names.size() > 1 && !have_one_tag(names)) return QuotaCode::subjects_apart;
  for (uint8_t place = 0; place < names.size(); ++place) {
    // In its place from the start: what is copied right after it was written takes long to read.
    Member& member = party.emplace_back();
    member.place = place;
    const SubjectIndex index = subjects_.find(hashes[place]);
    if (index != no_subject) {
      subjects_.look_at(index, member);
    } else if (!meet(names[place], hashes[place], may_make, party)) {
      return QuotaCode::subjects_full;
    }
    if (member.quota != nullptr) continue;
    party.pop_back();
    const QuotaCode code = meet_unknown(names[place]);
    if (code != QuotaCode::ok) return code;
  }
  return QuotaCode::ok;
}

// The last of the party is a subject that has no state yet. False: there is no room to make it.
bool Engine::meet(std::string_view name, const NameHash& hashed, bool may_make,
                  Party& party) noexcept {
  Member& member = party.back();
  const CurrentBook::OwnQuota own = book_.quota_of(name);
  if (own.quota == nullptr) return true;
  if (may_make) {
    const SubjectIndex made = subjects_.make(hashed, name, own, party);
    if (made == no_subject) return false;
    subjects_.look_at(made, member);
    return true;
  }
  subjects_.look_at_absent(*own.quota, member);
  return true;
}

QuotaCode Engine::meet_unknown(std::string_view name) noexcept {
  ++statistics_.unknown_subjects;
  unknown_subject_ = name;
  const bool denied = book_.denies_unknown();
  return denied ? QuotaCode::unknown_subject : QuotaCode::ok;
}

// Of a request that tells none: the server's default, or what the tightest limit leaves beside the
// input, so that a small quota does not refuse the first call.
uint64_t Engine::default_output(const Party& party, const api::Amounts& amounts) const noexcept {
  uint64_t output = book_.rules().output_tokens;
  for (const Member& member : party) {
    for (const MeterShape& shape : member.quota->shapes) {
      if (shape.ceiling != api::Ceiling::number) continue;
      if (shape.metric == api::Metric::output_tokens) output = std::min(output, shape.amount);
      if (shape.metric == api::Metric::tokens) {
        output = std::min(output, shape.amount - std::min(shape.amount, amounts.input_tokens));
      }
    }
  }
  return output;
}

Request Engine::request_of(const QuotaBatch& batch, const QuotaCall& call,
                           const Party& party) const noexcept {
  Request request{
      .amounts = call.amounts,
      .connection = call.tie,
      .lifetime_ms = call.lifetime_ms != 0 ? call.lifetime_ms : book_.rules().lifetime_ms,
      .subjects_count = call.subjects_count};
  request.subjects.fill(no_subject);
  for (const Member& member : party) request.subjects[member.place] = member.index;
  if ((call.told & api::given::output_tokens) == 0) {
    request.amounts.output_tokens = default_output(party, call.amounts);
  }
  if (!call.client_id.empty()) identify(request, batch, call);
  return request;
}

void Engine::identify(Request& request, const QuotaBatch& batch,
                      const QuotaCall& call) const noexcept {
  // Its subjects' common part belongs to the id, so that it means the same on any number of cores.
  const std::string_view part = proto::routed_part(batch.subjects[call.first_subject]);
  XXH128_hash_t hashed = XXH3_128bits_withSeed(part.data(), part.size(), options_.seed);
  hashed = XXH3_128bits_withSeed(call.client_id.data(), call.client_id.size(),
                                 hashed.low64 ^ (hashed.high64 << 1));
  request.id = {.low = hashed.low64 | 1, .high = hashed.high64};
  XXH3_state_t state;
  XXH3_64bits_reset_withSeed(&state, options_.seed);
  XXH3_64bits_update(&state, &call.amounts, sizeof call.amounts);
  for (uint32_t place = 0; place < call.subjects_count; ++place) {
    const std::string_view name = batch.subjects[call.first_subject + place];
    const size_t bytes = name.size();
    XXH3_64bits_update(&state, &bytes, sizeof bytes);
    XXH3_64bits_update(&state, name.data(), bytes);
  }
  request.id_request = XXH3_64bits_digest(&state);
}

// The reservation that the request's id names, or the waiter.
std::optional<ClientIds::Entry> Engine::find_repeated(const Request& request) const noexcept {
  if (!request.id.is_set()) return std::nullopt;
  return client_ids_.find(request.id, [&](ClientIds::Entry entry) -> const NameHash& {
    return entry.is_waiter ? queues_[entry.index].request.id : reservations_[entry.index].client_id;
  });
}

QuotaCode Engine::repeated_code(const Request& request, ClientIds::Entry found) const noexcept {
  if (found.is_waiter) return QuotaCode::id_in_use;
  const Reservation& reservation = reservations_[found.index];
  return reservation.id_request == request.id_request ? reservation.admission
                                                      : QuotaCode::id_in_use;
}

// The request's id names a reservation, or a waiter: true, and the answer is theirs.
bool Engine::answer_repeat(const Request& request, QuotaAnswer& answer) noexcept {
  const std::optional<ClientIds::Entry> found = find_repeated(request);
  if (!found) return false;
  answer.code = repeated_code(request, *found);
  if (answer.code == QuotaCode::id_in_use) return true;
  Reservation& reservation = reservations_[found->index];
  reservation.repeated = true;
  answer.state = reservation.state;
  answer.reservation = reservation.id;
  answer.amounts = reservation.amounts;
  answer.lifetime_ms = reservations_.lifetime_left_ms(reservation);
  return true;
}

// It would fit, but for those who wait; where it may pass them, only until their turn is over.
void Engine::stand_behind(Obstacle& against, const Party& party) const noexcept {
  against.code = QuotaCode::line_ahead;
  against.fits_at_ns = clock_.ns() + (queues_.let_pass(party) ? base::ns_per_ms : unknown_retry_ns);
}

void Engine::reserve(QuotaBatch& batch, size_t index, const SubjectHashes& hashes,
                     api::CoreId origin) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  const auto answered = [&](QuotaCode code) {
    ++statistics_.reserves[static_cast<size_t>(code)];
    answer.code = code;
    if (!api::admits(code) && code != QuotaCode::queued) set_retry(answer);
  };
  Party party;
  if (const QuotaCode code = gather(batch, call, hashes, true, party); code != QuotaCode::ok) {
    return answered(code);
  }
  const Request request = request_of(batch, call, party);
  if (request.id.is_set() && answer_repeat(request, answer)) {
    answered(answer.code);
  } else {
    const limiter::Shares shares(request.amounts);
    const bool has_room = reservations_.has_room();
    const bool in_line = queues_.must_wait(party);
    if (!in_line && (has_room ? charge_if_fits(party, shares, clock_.moment())
                              : party_fits(party, shares, clock_.moment()))) {
      if (!has_room) {
        answered(QuotaCode::reservations_full);
      } else {
        const Reservation& made = reservations_.open(request, admission_code(party), call.owner);
        answer.reservation = made.id;
        answer.state = api::ReservationState::open;
        answer.lifetime_ms = request.lifetime_ms;
        if (queues_.pool().used() > 0) queues_.count_overtaking(party);
        answered(made.admission);
      }
    } else {
      Obstacle against = find_obstacle(party, shares, clock_.moment());
      if (against.code == QuotaCode::ok) stand_behind(against, party);
      QuotaCode code = against.code;
      if ((call.flags & api::quota_flag::may_wait) != 0) {
        code = server_.join(call, request, against, origin, answer);
      }
      answered(code);
      if (code != QuotaCode::queued) deny(batch, index, party, request, code, against);
    }
  }
  if (api::admits(answer.code) && (call.flags & api::quota_flag::wants_limits) != 0) {
    answer_limits(batch, index, party, request.amounts, ReportedLimits::all, sources());
  }
}

// When a refusal may be asked again, by its code alone; deny() may know better.
void Engine::set_retry(QuotaAnswer& answer) noexcept {
  if (answer.retry_ms != 0) return;
  answer.retry_ms = api::may_retry(answer.code) ? limits::unknown_retry_ms : api::retry_never;
}

void Engine::deny(QuotaBatch& batch, size_t index, const Party& party, const Request& request,
                  QuotaCode code, const Obstacle& against) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  answer.code = code;
  if (!api::may_retry(code) || against.fits_at_ns == base::never_ns) {
    answer.retry_ms = api::retry_never;
  } else {
    // Somebody stands in line: it moves no later than this request could have fitted alone.
    answer.retry_ms = std::max<int64_t>(base::ceil_ms(against.fits_at_ns - clock_.ns()), 1);
  }
  if ((call.flags & (api::quota_flag::wants_violated | api::quota_flag::wants_limits)) != 0) {
    const bool wants_all = (call.flags & api::quota_flag::wants_limits) != 0;
    answer_limits(batch, index, party, request.amounts,
                  wants_all ? ReportedLimits::all : ReportedLimits::violated, sources());
  }
}

void Engine::check(QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  Party party;
  answer.code = gather(batch, call, hashes, false, party);
  if (answer.code != QuotaCode::ok) return set_retry(answer);
  const Request request = request_of(batch, call, party);
  if (const auto found = find_repeated(request)) {
    answer.code = repeated_code(request, *found);
    if (answer.code == QuotaCode::id_in_use) set_retry(answer);
  } else {
    const bool in_line = queues_.must_wait(party);
    Obstacle against = find_obstacle(party, limiter::Shares(request.amounts), clock_.moment());
    if (against.code == QuotaCode::ok && in_line) stand_behind(against, party);
    if (against.code != QuotaCode::ok) {
      return deny(batch, index, party, request, against.code, against);
    }
    answer.code = admission_code(party);
  }
  if (!api::admits(answer.code)) return;
  if ((call.flags & api::quota_flag::wants_limits) != 0) {
    answer_limits(batch, index, party, request.amounts, ReportedLimits::all, sources());
  }
}

void Engine::record(QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept {
  const QuotaCall& call = batch.calls[index];
  QuotaAnswer& answer = batch.answers[index];
  Party party;
  answer.code = gather(batch, call, hashes, true, party);
  if (answer.code != QuotaCode::ok) return set_retry(answer);
  const limiter::Shares shares(call.amounts, call.cached_input_tokens);
  for (const Member& member : party) {
    for (const MeterShape& shape : member.quota->shapes) {
      charge_used(shape, member.words, shares.of(shape), clock_.moment());
    }
  }
  ++statistics_.recorded;
  answer.code = admission_code(party);
  if ((call.flags & api::quota_flag::wants_limits) != 0) {
    answer_limits(batch, index, party, call.amounts, ReportedLimits::all, sources());
  }
}

}  // namespace sluice::quota
