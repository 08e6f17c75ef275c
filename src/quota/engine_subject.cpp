// Subjects: found, made, forgotten when idle; and how they come to another quota.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "quota/engine.hpp"

namespace sluice::quota {

using api::QuotaBatch;
using api::QuotaCode;
using api::QuotaSource;
using limiter::Meter;
using limiter::MeterShape;

namespace {

// Address space of reservations' owners.
constexpr size_t owner_bytes = 192;  // a block of the longest with its length
constexpr size_t arena_bytes_min = 4 * 1024 * 1024;

// A quota's words at most.
constexpr size_t quota_heads_max = limits::quota_limits_max * size_t{limiter::head_words_max};
constexpr size_t quota_rings_max =
    limits::quota_limits_max * 2 * size_t{limiter::rolling_day_places};
constexpr size_t quota_words_max = quota_heads_max + quota_rings_max;

// One more than there are subjects: the next quota of one has its words before the last gives back
// its own.
uint32_t usages_max(uint32_t subjects_max) noexcept {
  return subjects_max + 1;
}

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
      subjects_(options.subjects_max, "subjects (--max-subjects)"),
      subject_index_(options.subjects_max, "subjects (--max-subjects)"),
      name_memory_(options.subjects_max, options.name_bytes_max,
                   "names of subjects (--max-subjects, --max-key-bytes)"),
      heads_memory_(usages_max(options.subjects_max), quota_heads_max * sizeof(uint64_t),
                    "usage of subjects (--max-subjects)"),
      rings_memory_(usages_max(options.subjects_max), quota_rings_max * sizeof(uint64_t),
                    "usage of subjects (--max-subjects)"),
      reservations_(options.reservations_max, "reservations (--max-reservations)"),
      id_index_(options.reservations_max + options.waiters_max,
                "reservations (--max-reservations)"),
      owner_memory_(arena_bytes(options.reservations_max, owner_bytes),
                    "owners of reservations (--max-reservations)"),
      ids_(options.reservations_max),
      ties_(options.reservations_max, "ties of reservations (--max-reservations)"),
      tie_index_(options.reservations_max, "ties of reservations (--max-reservations)"),
      waiters_(options.waiters_max, "quota waiters (--max-waiters)"),
      scratch_words_(limits::call_subjects_max * quota_words_max) {
  ASSERT(ids_.capacity() <= place_mask);
  heads_memory_.advise_huge();
  rings_memory_.advise_huge();
  subjects_.advise_huge();
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

NameHash Engine::hash(std::string_view name) const noexcept {
  const XXH128_hash_t hashed = XXH3_128bits_withSeed(name.data(), name.size(), options_.seed);
  return {.low = hashed.low64, .high = hashed.high64};
}

std::string_view Engine::name_of(const Subject& subject) const noexcept {
  return {subject.name, subject.name_bytes};
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

// no_subject: there is no room.
SubjectIndex Engine::make(const NameHash& hash, std::string_view name, const QuotaClass* quota,
                          QuotaSource source, const Party& kept) noexcept {
  if (subjects_.used() == subjects_.capacity() && !make_room(kept)) return no_subject;
  const SubjectIndex index = subjects_.take();
  Subject& subject = subjects_[index];
  subject.hash = hash;
  subject.name = reinterpret_cast<char*>(name_memory_.take(name.size()));
  subject.name_bytes = static_cast<uint16_t>(name.size());
  std::memcpy(subject.name, name.data(), name.size());
  subject.version = version_;
  subject.resets = resets_;
  subject_index_.insert(hash.low, index);
  change_quota(subject, quota, source);
  return index;
}

// Usage against limits that stay the same but for their amount goes on.
void Engine::change_quota(Subject& subject, const QuotaClass* quota, QuotaSource source) noexcept {
  subject.source = source;
  if (quota == subject.quota) return;
  limiter::Words words;
  if (quota != nullptr) {
    QuotaClasses::hold(quota);
    words = take_words(*quota);
    for (const MeterShape& shape : quota->shapes) {
      Meter meter(shape, words);
      meter.begin(clock_.moment());
      if (subject.quota == nullptr) continue;
      for (const MeterShape& before : subject.quota->shapes) {
        if (!continues(before, shape)) continue;
        meter.take_over(before, subject.words, clock_.moment());
      }
    }
  }
  if (subject.quota != nullptr) {
    give_back_words(*subject.quota, subject.words);
    classes_.let_go(subject.quota);
  }
  subject.words = words;
  subject.quota = quota;
}

limiter::Words Engine::take_words(const QuotaClass& quota) noexcept {
  const auto take = [](SlabArena& memory, uint32_t words) {
    return reinterpret_cast<uint64_t*>(memory.take(words * sizeof(uint64_t)));
  };
  return {.heads = take(heads_memory_, quota.head_words),
          .rings = take(rings_memory_, quota.ring_words)};
}

void Engine::give_back_words(const QuotaClass& quota, const limiter::Words& words) noexcept {
  const auto give_back = [](SlabArena& memory, uint64_t* block, uint32_t words_count) {
    memory.give_back(reinterpret_cast<std::byte*>(block), words_count * sizeof(uint64_t));
  };
  give_back(heads_memory_, words.heads, quota.head_words);
  give_back(rings_memory_, words.rings, quota.ring_words);
}

// Of a subject that has no state.
limiter::Words Engine::scratch_words(uint8_t place) noexcept {
  uint64_t* const words = scratch_words_.data() + place * quota_words_max;
  return {.heads = words, .rings = words + quota_heads_max};
}

void Engine::forget(SubjectIndex index) noexcept {
  Subject& subject = subjects_[index];
  ASSERT(!subject.has_line() && subject.held == 0);
  change_quota(subject, nullptr, QuotaSource::none);
  subject_index_.erase(subject.hash.low, index);
  name_memory_.give_back(reinterpret_cast<std::byte*>(subject.name), subject.name_bytes);
  subjects_.give_back(index);
}

void Engine::refresh(SubjectIndex index) noexcept {
  Subject& subject = subjects_[index];
  if (subject.has_line()) mark(index);  // before anybody comes later
  if (std::exchange(subject.resets, resets_) != resets_) reset_meters(subject, resets_order_);
  if (std::exchange(subject.version, version_) == version_) return;
  if (subject.source == QuotaSource::run_time) return;
  const policy::SubjectQuota own = book_->quota_of(name_of(subject));
  change_quota(subject, class_of(own), own.source);
}

const QuotaClass* Engine::class_of(const policy::SubjectQuota& own) noexcept {
  return own.quota == nullptr ? nullptr : book_classes_.of(own.place, *own.quota);
}

bool Engine::is_idle(SubjectIndex index) noexcept {
  const Subject& subject = current(index);
  if (subject.configured || subject.has_line() || subject.held > 0 || subject.to_serve) {
    return false;
  }
  if (subject.quota == nullptr) return true;
  return std::all_of(subject.quota->shapes.begin(), subject.quota->shapes.end(),
                     [&](const MeterShape& shape) {
                       Meter meter(shape, subject.words);
                       meter.roll(clock_.moment());
                       return meter.used() == 0;
                     });
}

bool Engine::names(const Party& party, SubjectIndex index) noexcept {
  return std::any_of(party.begin(), party.end(),
                     [index](const Member& member) { return member.index == index; });
}

// Forgets idle ones among the next `count` subjects, but for those that are being looked at.
void Engine::sweep(uint32_t count, const Party& kept) noexcept {
  for (; count > 0 && subjects_.used() > 0; --count) {
    if (sweep_at_ >= subjects_.index_end()) sweep_at_ = 0;
    const SubjectIndex index = sweep_at_++;
    if (!subjects_.holds(index) || names(kept, index) || !is_idle(index)) continue;
    forget(index);
    ++statistics_.subjects_forgotten;
  }
}

bool Engine::make_room(const Party& kept) noexcept {
  ++room_scans_;
  sweep(eviction_scan, kept);
  return subjects_.used() < subjects_.capacity();
}

void Engine::reset_meters(Subject& subject, uint64_t order) noexcept {
  subject.reset_order = order;
  if (subject.quota == nullptr) return;
  for (const MeterShape& shape : subject.quota->shapes) {
    Meter meter(shape, subject.words);
    meter.roll(clock_.moment());
    meter.reset(clock_.moment());
  }
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
  const QuotaClass* const quota = classes_.hold(batch.new_quotas[index]);
  SubjectIndex subject = find(hashed);
  if (subject == no_subject) {
    subject = make(hashed, name, quota, QuotaSource::run_time, nobody_);
  } else {
    change_quota(current(subject), quota, QuotaSource::run_time);
  }
  classes_.let_go(quota);  // the subject holds it, if there is room for one
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
  const SubjectIndex found = find(hashed);
  if (found == no_subject || current(found).source != QuotaSource::run_time) {
    answer.code = QuotaCode::no_such_quota;
    return;
  }
  const policy::SubjectQuota own = book_->quota_of(name);
  Subject& subject = subjects_[found];
  change_quota(subject, class_of(own), own.source);
  subject.configured = book_->names(name);
  answer.code = QuotaCode::ok;
  serve(found);
  if (is_idle(found)) forget(found);
}

void Engine::reset(QuotaBatch& batch, size_t index, const NameHash& hashed) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  api::QuotaAnswer& answer = batch.answers[index];
  if (!names_one(batch, call, answer)) return;
  const SubjectIndex found = find(hashed);
  answer.code = QuotaCode::ok;  // nothing is used of what is not there
  if (found == no_subject) return;
  reset_meters(current(found), clock_.order());
  serve(found);
}

// Each subject takes part when it is next looked at, as if it had at once; those with a line now.
void Engine::reset_all() noexcept {
  ++resets_;
  resets_order_ = clock_.order();
  refresh_waiters_at_ = 0;
}

uint64_t Engine::reserved_bytes() const noexcept {
  return subjects_.reserved_bytes() + subject_index_.reserved_bytes() +
         name_memory_.reserved_bytes() + heads_memory_.reserved_bytes() +
         rings_memory_.reserved_bytes() + reservations_.reserved_bytes() +
         id_index_.reserved_bytes() + ids_.reserved_bytes() + owner_memory_.reserved_bytes() +
         ties_.reserved_bytes() + tie_index_.reserved_bytes() + waiters_.reserved_bytes();
}

void Engine::check_invariants(base::Now) const noexcept {
  uint32_t open = 0;
  std::vector<uint32_t> open_of(subjects_.index_end());
  std::vector<uint32_t> held_of(subjects_.index_end());
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
  name_memory_.check_invariants();
  heads_memory_.check_invariants();
  rings_memory_.check_invariants();
  uint32_t to_serve = 0;
  for (SubjectIndex at = first_to_serve_; at != no_subject; at = subjects_[at].next_to_serve) {
    ASSERT(subjects_[at].to_serve);
    ++to_serve;
  }
  for (SubjectIndex index = 0; index < subjects_.index_end(); ++index) {
    if (!subjects_.holds(index)) continue;
    const Subject& subject = subjects_[index];
    ASSERT(subject.held == held_of[index] && subject.open == open_of[index]);
    ASSERT(find(subject.hash) == index);
    to_serve -= subject.to_serve ? 1 : 0;
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
    if (subject.quota == nullptr) continue;
    ASSERT((subject.words.heads != nullptr) == (subject.quota->head_words > 0));
    ASSERT((subject.words.rings != nullptr) == (subject.quota->ring_words > 0));
    for (const MeterShape& shape : subject.quota->shapes) Meter(shape, subject.words).check();
  }
  ASSERT(to_serve == 0);
}

}  // namespace sluice::quota
