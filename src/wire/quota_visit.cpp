#include "wire/quota_visit.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/limits.hpp"
#include "wire/visit_time.hpp"

namespace sluice::wire {
namespace {

using api::Pass;
using api::QuotaBatch;
using api::QuotaCode;
using api::SpreadCall;
using State = SpreadCall::State;

static_assert(schema::PART_UNDECIDED == static_cast<uint8_t>(State::undecided));
static_assert(schema::PART_REFUSED == static_cast<uint8_t>(State::refused));
static_assert(schema::PART_QUEUED == static_cast<uint8_t>(State::queued));
static_assert(schema::PART_ADMITTED == static_cast<uint8_t>(State::admitted));
static_assert(schema::PART_DONE == static_cast<uint8_t>(State::done));

constexpr std::array passes{std::pair{Pass::look, schema::QuotaPass::LOOK},
                            std::pair{Pass::ask, schema::QuotaPass::ASK},
                            std::pair{Pass::await, schema::QuotaPass::AWAIT},
                            std::pair{Pass::apply, schema::QuotaPass::APPLY}};

struct FlagRow {
  uint16_t bit;
  bool SpreadCall::*field;
};
constexpr std::array flags{FlagRow{schema::PART_HAS_QUOTA, &SpreadCall::has_quota},
                           FlagRow{schema::PART_LIMITS_ANYTHING, &SpreadCall::limits_anything},
                           FlagRow{schema::PART_RESERVATIONS_FULL, &SpreadCall::reservations_full},
                           FlagRow{schema::PART_AWAITS_OWN, &SpreadCall::awaits_own},
                           FlagRow{schema::PART_AWAITS_OTHERS, &SpreadCall::awaits_others},
                           FlagRow{schema::PART_IS_REPEAT, &SpreadCall::is_repeat},
                           FlagRow{schema::PART_IS_TRY, &SpreadCall::is_try}};

constexpr bool is_code(uint8_t number) noexcept {
  return number < api::quota_codes_count;
}

// Why a shard may have no place for a call that is to wait.
constexpr bool says_why_none_waits(QuotaCode code) noexcept {
  return code == QuotaCode::none || code == QuotaCode::waiters_full ||
         code == QuotaCode::subject_waiters_full || code == QuotaCode::connection_waiters_full;
}

constexpr bool is_time(int64_t in_ns) noexcept {
  return in_ns >= unset_in_ns;
}

// Whether a call of this kind can have subjects on several nodes.
bool may_visit(const api::QuotaCall& call) noexcept {
  return api::concerns_limits(call.op) && call.subjects_count > 1 &&
         call.subjects_count <= limits::call_subjects_max;
}

// Its home has the first subject.
bool are_bits_of(const api::QuotaCall& call, uint8_t bits) noexcept {
  return bits != 0 && (bits & 1U) == 0 && bits >> call.subjects_count == 0;
}

// What a home may say of a call in this pass. Whoever awaits another verdict is not asked.
bool is_of_pass(const SpreadCall& part, QuotaCode verdict, Pass pass) noexcept {
  if (pass != Pass::apply) {
    return part.state == State::undecided && !api::holds_anything(part) &&
           (pass == Pass::await || !part.awaits());
  }
  if (part.state == State::admitted) return api::admits(verdict);
  if (part.state == State::queued) return verdict == QuotaCode::queued;
  return part.state == State::undecided || part.state == State::refused;
}

// A call that waits is known by the number of its arrival, which only its home gives.
bool may_wait_so(const QuotaBatch& batch, size_t index) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  const bool is_try = batch.spread[index].is_try;
  if (is_try && (!api::asks_admission(call.op) || api::may_wait(call))) return false;
  const bool waits = is_try || api::may_wait(call);
  return !waits || batch.arrival_of(index).node() == batch.visit.home;
}

// False: a value is impossible, or the call at this place has come before.
bool read_visited_call(schema::QuotaPart::Reader from, QuotaBatch& batch, size_t index) {
  std::vector<uint32_t>& places = batch.visit.places;
  const bool follows = places.empty() || from.getPlace() > places.back();
  const api::QuotaCall& call = batch.calls[index];
  SpreadCall& part = batch.spread[index];
  QuotaCode& verdict = batch.answers[index].code;
  places.push_back(from.getPlace());
  batch.visit.subject_bits.push_back(from.getSubjectsHere());
  return follows && may_visit(call) && are_bits_of(call, from.getSubjectsHere()) &&
         read_part(from, part, verdict) && is_of_pass(part, verdict, batch.pass) &&
         may_wait_so(batch, index);
}

// The places of the node's subjects with a place in a queue.
uint8_t waiting_bits(const SpreadCall& part, uint8_t subject_bits) noexcept {
  uint8_t bits = 0;
  for (size_t place = 0; place < part.waiters.size(); ++place) {
    if (part.waiters[place] != api::no_waiter) bits |= static_cast<uint8_t>(1U << place);
  }
  return bits & subject_bits;
}

// Which waiters these are, only the node itself knows.
void set_waiters(SpreadCall& part, uint8_t bits) noexcept {
  for (size_t place = 1; place < part.waiters.size(); ++place) {
    part.waiters[place] = (bits & 1U << place) != 0 ? 0 : api::no_waiter;
  }
}

}  // namespace

size_t visit_bytes(size_t calls_count) noexcept {
  constexpr size_t part_bytes = (capnp::_::structSize<schema::QuotaPart>().data +
                                 capnp::_::structSize<schema::QuotaPart>().pointers) *
                                sizeof(uint64_t);
  constexpr size_t head_bytes = 64;
  return head_bytes + calls_count * part_bytes;
}

void fill_part(schema::QuotaPart::Builder to, const QuotaBatch& batch, size_t index) {
  const SpreadCall& part = batch.spread[index];
  uint16_t bits = part.rounds <= 1 ? schema::PART_IS_FIRST_ROUND : uint16_t{0};
  for (const FlagRow& row : flags) bits |= part.*row.field ? row.bit : uint16_t{0};
  if (api::holds_anything(part)) bits |= schema::PART_HOLDS;
  to.setPlace(batch.visit.places[index]);
  to.setSubjectsHere(batch.visit.subject_bits[index]);
  to.setState(static_cast<uint8_t>(part.state));
  to.setFlags(bits);
  to.setProblem(static_cast<uint8_t>(part.problem));
  to.setProblemPlace(part.problem_place);
  to.setCode(static_cast<uint8_t>(part.code));
  to.setVerdict(static_cast<uint8_t>(batch.answers[index].code));
  to.setLifetimeMs(part.lifetime_ms);
  to.setFitsInNs(part.fits_at_ns);
  to.setEarliestInNs(part.earliest_ns);
  to.setQueueFitsInNs(part.queue_fits_at_ns);
  to.setOutputTokens(part.output_tokens);
  to.setReservation(part.reservation);
  to.setHomeWaiter(part.waiters[0]);
  to.setHomeShard(part.home_shard);
  to.setWaitsHere(waiting_bits(part, batch.visit.subject_bits[index]));
  to.setFitsHere(part.fit_bits & batch.visit.subject_bits[index]);
  to.setNoWaiterCode(static_cast<uint8_t>(part.no_waiter_code));
}

bool read_part(schema::QuotaPart::Reader from, SpreadCall& part, QuotaCode& verdict) {
  const bool is_possible = from.getState() <= schema::PART_DONE && is_code(from.getProblem()) &&
                           is_code(from.getCode()) && is_code(from.getVerdict()) &&
                           says_why_none_waits(static_cast<QuotaCode>(from.getNoWaiterCode())) &&
                           from.getProblemPlace() < limits::call_subjects_max &&
                           is_time(from.getFitsInNs()) && is_time(from.getEarliestInNs()) &&
                           is_time(from.getQueueFitsInNs());
  if (!is_possible) return false;
  part.state = static_cast<State>(from.getState());
  for (const FlagRow& row : flags) part.*row.field = (from.getFlags() & row.bit) != 0;
  part.holds.fill((from.getFlags() & schema::PART_HOLDS) != 0 ? SpreadCall::without_hold
                                                              : SpreadCall::no_hold);
  part.waiters[0] = from.getHomeWaiter();
  set_waiters(part, from.getWaitsHere());
  part.home_shard = from.getHomeShard();
  part.fit_bits = from.getFitsHere();
  part.no_waiter_code = static_cast<QuotaCode>(from.getNoWaiterCode());
  part.rounds = (from.getFlags() & schema::PART_IS_FIRST_ROUND) != 0 ? 1 : 2;
  part.problem = static_cast<QuotaCode>(from.getProblem());
  part.problem_place = from.getProblemPlace();
  part.code = static_cast<QuotaCode>(from.getCode());
  part.lifetime_ms = from.getLifetimeMs();
  part.fits_at_ns = from.getFitsInNs();
  part.earliest_ns = from.getEarliestInNs();
  part.queue_fits_at_ns = from.getQueueFitsInNs();
  part.output_tokens = from.getOutputTokens();
  part.reservation = from.getReservation();
  verdict = static_cast<QuotaCode>(from.getVerdict());
  return !part.is_repeat || verdict != QuotaCode::none;
}

void fill_visit(schema::QuotaVisit::Builder to, const QuotaBatch& batch) {
  const auto pass =
      std::ranges::find(passes, batch.pass, [](const auto& row) { return row.first; });
  to.setRound(batch.visit.number);
  to.setHome(static_cast<uint16_t>(batch.visit.home));
  to.setPass(pass->second);
  to.setArrivalNs(static_cast<uint64_t>(batch.arrival.ns));
  to.setArrivalNumber(batch.arrival.number);
  to.setAsker(batch.asker);
  auto parts = to.initParts(static_cast<kj::uint>(batch.calls.size()));
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    fill_part(parts[static_cast<kj::uint>(index)], batch, index);
  }
}

bool read_visit(schema::QuotaVisit::Reader from, QuotaBatch& batch) {
  const auto pass =
      std::ranges::find(passes, from.getPass(), [](const auto& row) { return row.second; });
  const auto parts = from.getParts();
  const bool is_possible =
      pass != passes.end() && from.getRound() != 0 && from.getHome() < limits::instances_max &&
      from.getArrivalNs() < INT64_MAX && parts.size() > 0 && parts.size() == batch.calls.size();
  if (!is_possible) return false;
  batch.pass = pass->first;
  batch.arrival = {.ns = static_cast<int64_t>(from.getArrivalNs()),
                   .number = from.getArrivalNumber()};
  batch.asker = from.getAsker();
  batch.visit.number = from.getRound();
  batch.visit.home = from.getHome();
  batch.spread.assign(parts.size(), {});
  batch.answers.assign(parts.size(), {});
  for (kj::uint index = 0; index < parts.size(); ++index) {
    if (!read_visited_call(parts[index], batch, index)) return false;
  }
  return true;
}

}  // namespace sluice::wire
