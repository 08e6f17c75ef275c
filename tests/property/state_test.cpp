// Whatever a shard has is the same when its parts are read again; whatever happens to the bytes of
// a part, it is refused, or what is read is sound.
// Method: random records with meters after random calls; then bits and bytes changed at random,
// with a wrong checksum and with a right one, in memory that ends at a guard page. SEED=n repeats a
// run.
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "property/seeds.hpp"
#include "state/part_arena.hpp"
#include "state/part_reader.hpp"
#include "support/guarded_buffer.hpp"
#include "support/state_parts.hpp"

namespace sluice::state {
namespace {

constexpr size_t part_bytes_here = 256 * 1024;

struct Subject {
  std::string name;
  uint64_t quota_class = 0;
  uint64_t reset_order = 0;
  test::MeteredSubject meters;
};

// A shard's state, made up.
class Shard {
 public:
  explicit Shard(uint64_t seed) : dice_(seed) {
    now_ = {.ns = static_cast<int64_t>(number(55)),
            .wall_ns = static_cast<int64_t>(number(60)),
            .order = number(50) + 1};
    header_ = {.epoch = number(64) | 1,
               .shard = static_cast<uint16_t>(dice_.below(16)),
               .shards = static_cast<uint16_t>(16 + dice_.below(241))};
    header_.table_version = number(64);
    header_.reset_all_order = dice_.below(now_.order + 1);
    for (uint64_t count = dice_.below(40); count > 0; --count) add_subject();
    for (uint64_t count = dice_.below(40); count > 0; --count) add_reservation();
    for (uint64_t count = dice_.below(40); count > 0; --count) add_end();
    for (uint64_t count = dice_.below(10); count > 0; --count) {
      gone_subjects_.push_back({.key = key()});
      gone_reservations_.push_back({.id = number(64) | 1, .is_part = dice_.percent(50)});
    }
    for (uint64_t count = dice_.below(40); count > 0; --count) add_window();
    finish_header();
  }

  Dice& dice() { return dice_; }

  void write(PartArena& arena) {
    for (Subject& subject : subjects_) {
      arena.add(SubjectRecord{.name = subject.name,
                              .quota_class = subject.quota_class,
                              .reset_order = subject.reset_order,
                              .shapes = subject.meters.shapes(),
                              .words = subject.meters.words()});
    }
    for (const auto& gone : gone_subjects_) arena.add(gone);
    for (const auto& reservation : reservations_) arena.add(reservation);
    for (const auto& ended : ended_) arena.add(ended);
    for (const auto& gone : gone_reservations_) arena.add(gone);
    for (const auto& window : windows_) arena.add(window);
    arena.finish(header_);
  }

  void expect_same(std::span<const std::byte> part) {
    auto reader = PartReader::open(part);
    ASSERT_TRUE(reader);
    const PartHeader& header = reader->header();
    header_.records_bytes = header.records_bytes;
    header_.records_count = header.records_count;
    EXPECT_EQ(header, header_);
    for (Subject& subject : subjects_) expect_subject(reader->next(), subject);
    expect_records(*reader, gone_subjects_);
    expect_records(*reader, reservations_);
    expect_records(*reader, ended_);
    expect_records(*reader, gone_reservations_);
    expect_records(*reader, windows_);
    EXPECT_FALSE(reader->next());
    EXPECT_FALSE(reader->damage());
  }

 private:
  // Of up to so many bits; every length is as likely.
  uint64_t number(uint64_t bits_max) {
    const uint64_t bits = 1 + dice_.below(bits_max);
    return dice_.below(UINT64_MAX) >> (64 - bits);
  }
  uint64_t amount() { return std::min<uint64_t>(number(63), limits::amount_max); }
  uint64_t past_order() { return dice_.below(now_.order + 1); }
  Hash hash() { return {.low = number(64), .high = number(64)}; }
  SubjectKey key() { return {.name = hash(), .route = static_cast<uint16_t>(number(16))}; }
  std::string text(uint64_t bytes_max) { return std::string(1 + dice_.below(bytes_max), 't'); }
  api::Amounts amounts() {
    return {.requests = amount(),
            .input_tokens = amount(),
            .output_tokens = amount(),
            .cost = amount()};
  }
  int64_t due_ms() {
    return dice_.between(0, now_.ns / base::ns_per_ms + int64_t{limits::lifetime_ms_max});
  }
  api::QuotaCode admission() { return static_cast<api::QuotaCode>(1 + dice_.below(3)); }

  void add_subject() {
    const uint64_t quota_class = number(64);
    Subject subject{.name = text(300),
                    .quota_class = quota_class,
                    .reset_order = past_order(),
                    .meters = {test::limits_of_class(quota_class), now_}};
    call(subject.meters);
    subjects_.push_back(std::move(subject));
  }

  // Random calls; those of all subjects are before the part.
  void call(test::MeteredSubject& meters) {
    std::vector<std::pair<uint64_t, limiter::Charge>> charges;
    for (uint64_t count = dice_.below(60); count > 0; --count) {
      meters.next(static_cast<int64_t>(number(44)));
      for (size_t at = 0; at < meters.shapes().size(); ++at) {
        const uint64_t charged = dice_.percent(90) ? number(20) : amount();
        const limiter::Charge charge = meters.charge(at, charged, dice_.percent(60));
        if (dice_.percent(30)) meters.meter(at).close(charged, number(20), charge, meters.now());
      }
    }
    for (size_t at = 0; at < meters.shapes().size(); ++at) {
      if (dice_.percent(10)) meters.meter(at).reset(meters.now());
    }
    meters.check();
    latest_ns_ = std::max(latest_ns_, meters.now().ns);
    latest_wall_ns_ = std::max(latest_wall_ns_, meters.now().wall_ns);
    latest_order_ = std::max(latest_order_, meters.now().order);
  }

  void add_reservation() {
    ReservationRecord made{.id = number(64) | 1,
                           .state = static_cast<api::ReservationState>(1 + dice_.below(4)),
                           .admission = admission(),
                           .is_part = dice_.percent(30),
                           .is_connection_bound = dice_.percent(30),
                           .is_repeated = dice_.percent(30),
                           .lifetime_ms = static_cast<uint32_t>(number(31)),
                           .due_ms = due_ms(),
                           .amounts = amounts()};
    if (!made.has_ended()) {
      made.charged_ns = dice_.between(0, now_.ns);
      made.order = past_order();
    }
    const bool is_open = made.state == api::ReservationState::open;
    const bool has_expired = made.state == api::ReservationState::expired;
    if (has_expired || (!is_open && dice_.percent(20))) made.expired_order = 1 + past_order() / 2;
    if (dice_.percent(50)) made.client_id = hash();
    if (dice_.percent(50)) made.request_hash = number(64);
    if (dice_.percent(30)) made.owner = owners_.emplace_back(text(limits::client_id_bytes_max));
    made.subjects_count = static_cast<uint8_t>(1 + dice_.below(limits::call_subjects_max));
    made.refunded_bits = static_cast<uint8_t>(dice_.below(uint64_t{1} << made.subjects_count));
    for (uint8_t at = 0; at < made.subjects_count; ++at) made.subjects[at] = reserved_subject();
    reservations_.push_back(made);
  }

  ReservedSubject reserved_subject() {
    using Where = ReservedSubject::Where;
    ReservedSubject subject{.where = static_cast<Where>(dice_.below(3))};
    if (subject.where == Where::here) subject.key = key();
    if (subject.where == Where::other_shard) {
      subject.shard = static_cast<uint16_t>(dice_.below(limits::shards_max));
    }
    return subject;
  }

  void add_end() {
    ended_.push_back({.id = number(64) | 1,
                      .state = static_cast<api::ReservationState>(2 + dice_.below(2)),
                      .admission = admission(),
                      .late = dice_.percent(30),
                      .forgotten_ms = due_ms(),
                      .amounts = amounts()});
  }

  limiter::Policy policy() {
    return {.window_ms = dice_.between(1, limits::window_ms_max),
            .max_requests = static_cast<uint32_t>(dice_.between(1, limits::permits_max)),
            .max_requests_in_queue = static_cast<uint32_t>(dice_.between(0, limits::queue_max))};
  }
  void add_window() {
    WindowRecord window{
        .key = keys_.emplace_back(text(300)),
        .end_ms = dice_.between(0, now_.ns / base::ns_per_ms + limits::window_ms_max),
        .approved = static_cast<uint32_t>(number(32)),
        .denied = static_cast<uint32_t>(number(32)),
        .policy = policy()};
    window.rules_policy = dice_.percent(50) ? policy() : window.policy;
    windows_.push_back(window);
  }

  void finish_header() {
    header_.time = {.state_ns = std::max(latest_ns_, now_.ns),
                    .machine = {.boot = {.high = number(64), .low = number(64)},
                                .boot_ns = static_cast<int64_t>(number(60)),
                                .wall_ns = static_cast<int64_t>(number(61))}};
    header_.calendar_wall_ns = std::max(latest_wall_ns_, now_.wall_ns);
    header_.order = std::max(latest_order_, now_.order);
  }

  static void expect_subject(const std::optional<StoredRecord>& record, Subject& subject) {
    ASSERT_TRUE(record && std::holds_alternative<StoredSubject>(*record));
    const auto& found = std::get<StoredSubject>(*record);
    EXPECT_EQ(found.name, subject.name);
    EXPECT_EQ(found.quota_class, subject.quota_class);
    EXPECT_EQ(found.reset_order, subject.reset_order);
    test::MeteredSubject read = subject.meters.blank();
    ASSERT_TRUE(unpack_meters(found.meters, read.shapes(), subject.meters.now(), read.words()));
    EXPECT_TRUE(read.has_same_words(subject.meters));
  }

  template <typename Record>
  static void expect_records(PartReader& reader, const std::vector<Record>& expected) {
    for (const Record& each : expected) {
      const std::optional<StoredRecord> record = reader.next();
      ASSERT_TRUE(record && std::holds_alternative<Record>(*record));
      EXPECT_EQ(std::get<Record>(*record), each);
    }
  }

  Dice dice_;
  limiter::Moment now_;
  int64_t latest_ns_ = 0;
  int64_t latest_wall_ns_ = 0;
  uint64_t latest_order_ = 0;
  PartHeader header_;
  std::deque<std::string> owners_;
  std::deque<std::string> keys_;
  std::vector<Subject> subjects_;
  std::vector<GoneSubject> gone_subjects_;
  std::vector<ReservationRecord> reservations_;
  std::vector<EndedReservation> ended_;
  std::vector<GoneReservation> gone_reservations_;
  std::vector<WindowRecord> windows_;
};

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

class StateProperty : public testing::Test {
 protected:
  void begin(uint64_t seed) {
    shard_.emplace(seed);
    arena_.clear();
    shard_->write(arena_);
    ASSERT_EQ(arena_.parts().size(), 1U);
  }
  std::span<const std::byte> part() const { return arena_.parts()[0]; }
  Dice& dice() { return shard_->dice(); }

  // Changes some bits or bytes, or cuts some off.
  std::vector<std::byte> changed() {
    std::vector<std::byte> bytes = copy_of(part());
    for (uint64_t count = 1 + dice().below(3); count > 0; --count) {
      const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(dice().below(bytes.size()));
      const auto value = static_cast<std::byte>(dice().below(256));
      switch (dice().below(6)) {
        case 0:
          bytes.erase(at, at + std::min<std::ptrdiff_t>(bytes.end() - at, 9));
          break;
        case 1:
          bytes.insert(at, value);
          break;
        case 2:
          *at = value;
          break;
        default:
          *at ^= static_cast<std::byte>(1U << dice().below(8));
      }
      if (bytes.empty()) return bytes;
    }
    return bytes;
  }

  std::optional<Shard> shard_;
  PartArena arena_{part_bytes_here, "a test"};
  test::GuardedBuffer guarded_{part_bytes_here};
};

TEST_F(StateProperty, what_is_read_is_what_was_written) {
  for (const uint64_t seed : property_seeds(300)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    ASSERT_NO_FATAL_FAILURE(begin(seed));
    shard_->expect_same(guarded_.place(part()));
    if (HasFailure()) return;
  }
}

TEST_F(StateProperty, what_was_changed_is_refused) {
  for (const uint64_t seed : property_seeds(100)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    ASSERT_NO_FATAL_FAILURE(begin(seed));
    for (int time = 0; time < 20; ++time) {
      const std::vector<std::byte> bytes = changed();
      const bool is_same = std::ranges::equal(bytes, part());
      ASSERT_EQ(PartReader::open(guarded_.place(bytes)).has_value(), is_same);
    }
    const size_t cut = dice().below(part().size());
    ASSERT_FALSE(PartReader::open(guarded_.place(part().first(cut))));
  }
}

TEST_F(StateProperty, what_was_changed_before_it_was_hashed_is_refused_or_sound) {
  size_t sound = 0;
  size_t refused = 0;
  for (const uint64_t seed : property_seeds(300)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    ASSERT_NO_FATAL_FAILURE(begin(seed));
    test::PartCheck check;
    const size_t whole = check.run(guarded_.place(part()));
    ASSERT_EQ(whole, arena_.records_count());
    for (int time = 0; time < 20; ++time) {
      const size_t found = check.run(guarded_.place(test::sealed(changed())));
      sound += found;
      refused += whole > found ? whole - found : 0;
    }
  }
  EXPECT_GT(sound, 0U);
  EXPECT_GT(refused, 0U);
}

}  // namespace
}  // namespace sluice::state
