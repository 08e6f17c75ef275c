// Subjects: found, made, forgotten when idle; and how they come to another quota.
#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "quota/engine.hpp"

namespace sluice::quota {

using api::QuotaBatch;
using api::QuotaCode;
using api::QuotaSource;

namespace {

// Address space of reservations' owners.
constexpr size_t owner_bytes = 192;  // a block of the longest with its length
constexpr size_t arena_bytes_min = 4 * 1024 * 1024;

size_t arena_bytes(uint32_t count, size_t each) noexcept {
  return std::max(count * each, arena_bytes_min);
}

uint64_t mix(uint64_t value) noexcept {  // splitmix64
  value += 0x9E37'79B9'7F4A'7C15;
  value = (value ^ (value >> 30)) * 0xBF58'476D'1CE4'E5B9;
  value = (value ^ (value >> 27)) * 0x94D0'49BB'1331'11EB;
  return value ^ (value >> 31);
}

}  // namespace

Engine::Engine(const Options& options)
    : options_(options),
      budget_(options.step_work),
      subjects_(options, clock_, book_, statistics_),
      adoption_(options_, book_, subjects_),
      reservations_(options.reservations_max, "reservations (--max-reservations)"),
      id_index_(options.reservations_max + options.waiters_max,
                "reservations (--max-reservations)"),
      owner_memory_(arena_bytes(options.reservations_max, owner_bytes),
                    "owners of reservations (--max-reservations)"),
      ids_(options.reservations_max),
      ties_(options.reservations_max, "ties of reservations (--max-reservations)"),
      tie_index_(options.reservations_max, "ties of reservations (--max-reservations)"),
      waiters_(options.waiters_max, "quota waiters (--max-waiters)") {
  ASSERT(ids_.capacity() <= place_mask);
  reservations_.advise_huge();
  grants_.reserve(options.waiters_max);
}

Engine::~Engine() {
  // Timers and list hooks unlink themselves.
  ended_.clear();
  late_waiters_.clear();
}

uint64_t Engine::new_id(IdBook::Place place) noexcept {
  const uint64_t nonce = mix(options_.seed + ++ids_given_) >> 32;
  return (uint64_t{options_.shard} << 56) | (uint64_t{place} << 32) | nonce;
}

// With its length before it. `none`: there is none, or no room.
BlockArena::Block Engine::keep_owner(std::string_view owner) noexcept {
  if (owner.empty()) return BlockArena::none;
  const BlockArena::Block block = owner_memory_.take(1 + owner.size());
  if (block == BlockArena::none) return block;
  std::byte* const at = owner_memory_.at(block);
  *at = static_cast<std::byte>(owner.size());
  std::memcpy(at + 1, owner.data(), owner.size());
  return block;
}

std::string_view Engine::owner_at(BlockArena::Block block) const noexcept {
  if (block == BlockArena::none) return {};
  const std::byte* const at = owner_memory_.at(block);
  return {reinterpret_cast<const char*>(at + 1), static_cast<size_t>(*at)};
}

void Engine::drop_owner(BlockArena::Block block) noexcept {
  if (block != BlockArena::none) owner_memory_.give_back(block, 1 + owner_at(block).size());
}

// Of a call about one subject's quota; if not, that is the answer.
bool Engine::names_one(const QuotaBatch& batch, const api::QuotaCall& call,
                       api::QuotaAnswer& answer) const noexcept {
  if (call.subjects_count == 1 && are_valid(names_of(batch, call))) return true;
  answer.code = QuotaCode::invalid_subject;
  return false;
}

void Engine::put(QuotaBatch& batch, size_t index, const NameHash& hashed) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  api::QuotaAnswer& answer = batch.answers[index];
  if (!names_one(batch, call, answer)) return;
  const std::string_view name = batch.subjects[call.first_subject];
  const QuotaClass* const quota = book_.classes().hold(batch.new_quotas[index]);
  const CurrentBook::OwnQuota own{.quota = quota, .source = QuotaSource::run_time};
  SubjectIndex subject = subjects_.find(hashed);
  if (subject == no_subject) {
    subject = subjects_.make(hashed, name, own, nobody);
  } else {
    subjects_.change_quota(subjects_.current(subject), own);
  }
  book_.classes().let_go(quota);  // the subject holds it, if there is room for one
  if (subject == no_subject) {
    answer.code = QuotaCode::subjects_full;
    return tell_retry(answer);  // somebody may be idle then
  }
  subjects_[subject].configured = true;
  answer.code = QuotaCode::ok;
  tell_subject(batch, index, 0, subject, name);
  serve(subject);
}

void Engine::remove(QuotaBatch& batch, size_t index, const NameHash& hashed) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  api::QuotaAnswer& answer = batch.answers[index];
  if (!names_one(batch, call, answer)) return;
  const std::string_view name = batch.subjects[call.first_subject];
  const SubjectIndex found = subjects_.find(hashed);
  if (found == no_subject || subjects_.current(found).source != QuotaSource::run_time) {
    answer.code = QuotaCode::no_such_quota;
    return;
  }
  Subject& subject = subjects_[found];
  subjects_.change_quota(subject, book_.quota_of(name));
  subject.configured = book_.names(name);
  answer.code = QuotaCode::ok;
  serve(found);
  subjects_.forget_if_idle(found);
}

void Engine::reset(QuotaBatch& batch, size_t index, const NameHash& hashed) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  api::QuotaAnswer& answer = batch.answers[index];
  if (!names_one(batch, call, answer)) return;
  const SubjectIndex found = subjects_.find(hashed);
  answer.code = QuotaCode::ok;  // nothing is used of a subject that is not there
  if (found == no_subject) return;
  subjects_.reset(found);
  serve(found);
}

void Engine::adopt(policy::QuotaBook& book, base::Now now) noexcept {
  clock_.begin(now);
  book_.adopt(book);
  refresh_waiters_at_ = 0;
  adoption_.begin();
  adoption_.go_on();
}

// Each subject takes part when it is next looked at; those with a queue are looked at now.
void Engine::reset_all() noexcept {
  subjects_.reset_all();
  refresh_waiters_at_ = 0;
}

uint64_t Engine::reserved_bytes() const noexcept {
  return subjects_.reserved_bytes() + reservations_.reserved_bytes() + id_index_.reserved_bytes() +
         ids_.reserved_bytes() + owner_memory_.reserved_bytes() + ties_.reserved_bytes() +
         tie_index_.reserved_bytes() + waiters_.reserved_bytes();
}

void Engine::check_invariants(base::Now) const noexcept {
  uint32_t open = 0;
  std::vector<uint32_t> open_of(subjects_.pool().index_end());
  std::vector<uint32_t> held_of(subjects_.pool().index_end());
  for (Index index = 0; index < reservations_.index_end(); ++index) {
    if (!reservations_.holds(index)) continue;
    const Reservation& reservation = reservations_[index];
    const bool is_open = reservation.state == api::ReservationState::open;
    ASSERT(reservation.timer.scheduled() && index_of(reservation) == index);
    ASSERT(ids_.find(reservation.id, id_place(reservation.id), clock_.ms())->reservation == index);
    ASSERT(is_open || reservation.is_linked());
    open += is_open ? 1 : 0;
    for (uint8_t place = 0; place < reservation.subjects_count; ++place) {
      const SubjectIndex subject = reservation.subjects[place];
      if (subject == no_subject) continue;
      ++held_of[subject];
      open_of[subject] += is_open ? 1 : 0;
    }
  }
  ASSERT(open == open_count_);
  subjects_.check_invariants();
  for (SubjectIndex index = 0; index < subjects_.pool().index_end(); ++index) {
    if (!subjects_.pool().holds(index)) continue;
    const Subject& subject = subjects_[index];
    ASSERT(subject.held == held_of[index] && subject.open == open_of[index]);
    uint32_t waiting = 0;
    Link before = no_link;
    for (Link at = subject.first_waiter; at != no_link; ++waiting) {
      const Waiter& waiter = waiters_[waiter_of(at)];
      ASSERT(waiter.request.subjects[place_of(at)] == index);
      ASSERT(waiter.before[place_of(at)] == before);
      before = at;
      at = waiter.behind[place_of(at)];
    }
    ASSERT(before == subject.last_waiter && waiting == subject.waiting);
  }
}

}  // namespace sluice::quota
