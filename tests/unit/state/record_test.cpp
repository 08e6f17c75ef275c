// Goal: every record is the same when it is read again, in about as many bytes as were planned; a
// record with a value that it cannot have is refused.
// Method: samples, written and read; each of their fields changed to what it cannot be.
#include "state/record.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/time.hpp"
#include "support/guarded_buffer.hpp"
#include "support/metered_subject.hpp"
#include "unit/state/bytes.hpp"
#include "unit/state/samples.hpp"

namespace sluice::state {
namespace {

using api::LimitKind;
using api::ReservationState;
using limiter::Moment;

template <typename Record>
Bytes bytes_of_record(const Record& record) {
  return written([&](ByteWriter& writer) { write_record(writer, record); });
}

std::optional<StoredRecord> read(const Bytes& bytes, const Moment& latest = sample_moment) {
  ByteReader reader(bytes);
  std::optional<StoredRecord> record = read_record(reader, latest);
  EXPECT_TRUE(!record || reader.left() == 0);
  return record;
}

template <typename Record>
void expect_same(const Record& record) {
  const Bytes bytes = bytes_of_record(record);
  EXPECT_LE(bytes.size(), record_bytes_max(record));
  const std::optional<StoredRecord> found = read(bytes);
  ASSERT_TRUE(found);
  ASSERT_TRUE(std::holds_alternative<Record>(*found));
  EXPECT_EQ(std::get<Record>(*found), record);
}

SubjectRecord record_of(test::MeteredSubject& subject, std::string_view name) {
  return {.name = name,
          .quota_class = 0x1122'3344'5566'7788,
          .reset_order = 4'000,
          .shapes = subject.shapes(),
          .words = subject.words()};
}

test::MeteredSubject little_used() {
  test::MeteredSubject subject(
      {test::limit_of(LimitKind::sliding, 500), test::limit_of(LimitKind::sliding, 30'000),
       test::limit_of(LimitKind::sliding, 1'000'000, 86'400'000)},
      sample_moment);
  subject.charge(0, 3, true);
  subject.charge(1, 2'500, true);
  subject.charge(2, 2'500, true);
  return subject;
}

TEST(Record, of_a_subject_is_the_same_when_it_is_read) {
  test::MeteredSubject subject = little_used();
  const SubjectRecord record = record_of(subject, "tenant-0000042");
  const Bytes bytes = bytes_of_record(record);
  EXPECT_LE(bytes.size(), record_bytes_max(record));
  const auto found = std::get<StoredSubject>(read(bytes).value());
  EXPECT_EQ(found.name, record.name);
  EXPECT_EQ(found.quota_class, record.quota_class);
  EXPECT_EQ(found.reset_order, record.reset_order);
  test::MeteredSubject again = subject.blank();
  ASSERT_TRUE(unpack_meters(found.meters, again.shapes(), sample_moment, again.words()));
  EXPECT_TRUE(again.has_same_words(subject));
}

TEST(Record, of_a_subject_without_a_quota_has_no_meters) {
  const Bytes bytes = bytes_of_record(SubjectRecord{.name = "a"});
  const auto found = std::get<StoredSubject>(read(bytes).value());
  EXPECT_EQ(found.name, "a");
  EXPECT_EQ(found.quota_class, 0U);
  EXPECT_TRUE(found.meters.empty());
}

TEST(Record, of_a_subject_takes_60_to_120_bytes_when_little_is_used) {
  test::MeteredSubject subject = little_used();
  EXPECT_EQ(bytes_of_record(record_of(subject, "tenant-0000042")).size(), 63U);
  EXPECT_EQ(bytes_of_record(record_of(subject, std::string(64, 'n'))).size(), 113U);
}

TEST(Record, of_a_subject_may_have_the_longest_name) {
  const std::string name(limits::key_bytes_max, 'n');
  const Bytes bytes = bytes_of_record(SubjectRecord{.name = name});
  EXPECT_EQ(std::get<StoredSubject>(read(bytes).value()).name, name);
}

TEST(Record, of_a_subject_is_refused_without_a_name_or_with_a_later_reset) {
  EXPECT_FALSE(read(bytes_of_record(SubjectRecord{})));
  const uint64_t now = sample_moment.order;
  EXPECT_TRUE(read(bytes_of_record(SubjectRecord{.name = "a", .reset_order = now})));
  EXPECT_FALSE(read(bytes_of_record(SubjectRecord{.name = "a", .reset_order = now + 1})));
}

std::string hex(const Bytes& bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    text += digits[static_cast<size_t>(byte >> 4)];
    text += digits[static_cast<size_t>(byte & std::byte{0xF})];
  }
  return text;
}

// A file that is written today must be read by every later version.
TEST(Record, keeps_its_layout) {
  test::MeteredSubject subject(
      {test::limit_of(LimitKind::concurrency), test::limit_of(LimitKind::fixed),
       test::limit_of(LimitKind::sliding), test::limit_of(LimitKind::gcra),
       test::limit_of(LimitKind::rolling_day), test::limit_of(LimitKind::calendar)},
      sample_moment);
  for (size_t at = 1; at < 6; ++at) {
    subject.charge(at, 300, true);
    subject.next(5 * base::ns_per_s);
    subject.charge(at, 1, false);
  }
  EXPECT_EQ(hex(bytes_of_record(record_of(subject, "ab"))),
            "016600000261628877665544332211a01f000180d0acf30ead02ac0280b0a5fcefaecd040200c2c6"
            "27030201ac02ac020400c3c627030201ac02ac0280d0a4a58cfc0200000080accfaac8adcd041300"
            "000300e20e0101ad02ac020100ad02ac028080908482e3eb8118");
  EXPECT_EQ(hex(bytes_of_record(GoneSubject{.key = subject_here(3).key})),
            "02120000fcffffffffffffff01000000000300000300");
  EXPECT_EQ(hex(bytes_of_record(open_reservation())),
            "033a0000cdab89674523010001000100e0d403f8dcfed30901bc05090080ec9cdd8cadcd04fba7d6"
            "b9070101fcffffffffffffff01000000000300000300");
  EXPECT_EQ(hex(bytes_of_record(full_reservation())),
            "039b0000cdab896745230100fc030281e0d403f8dcfed30901bc0509ffffffffffffffff7f80ec9c"
            "dd8cadcd04fba7d6b90780a8d6b9070500000000000000ffffffffffffffff0b0000000000000008"
            "776f726b657220370801ffffffffffffffff0100000000000000000002010001fdffffffffffffff"
            "010000000002000002000203000002050001f9ffffffffffffff01000000000600000600020700");
  EXPECT_EQ(hex(bytes_of_record(settled_reservation())),
            "03450000cdab896745230100c2000100e0d403f8dcfed30901bc0509000500000000000000060000"
            "000000000007000000000000000101fcffffffffffffff01000000000300000300");
  EXPECT_EQ(hex(bytes_of_record(ended_reservation())),
            "04140000cdab8967452301008301f8dcfed30901bc050900");
  EXPECT_EQ(hex(bytes_of_record(GoneReservation{.id = 0x1234, .is_part = true})),
            "05090000341200000000000001");
}

TEST(Record, of_a_gone_subject_is_the_same_when_it_is_read) {
  expect_same(GoneSubject{.key = {.name = {.low = 1, .high = 2}, .route = 0xFFFF}});
  expect_same(GoneSubject{});
}

TEST(Record, of_a_reservation_is_the_same_when_it_is_read) {
  expect_same(open_reservation());
  expect_same(full_reservation());
  expect_same(settled_reservation());
}

TEST(Record, of_a_reservation_takes_about_as_many_bytes_as_planned) {
  EXPECT_EQ(bytes_of_record(open_reservation()).size(), 62U);
  EXPECT_EQ(bytes_of_record(settled_reservation()).size(), 73U);
  EXPECT_EQ(bytes_of_record(ended_reservation()).size(), 24U);
}

TEST(Record, of_a_reservation_that_has_ended_does_not_keep_its_charge) {
  ReservationRecord reservation = settled_reservation();
  reservation.charged_ns = 99;
  reservation.order = 99;
  const auto found = std::get<ReservationRecord>(read(bytes_of_record(reservation)).value());
  EXPECT_EQ(found, settled_reservation());
}

TEST(Record, of_an_ended_reservation_is_the_same_when_it_is_read) {
  expect_same(ended_reservation());
  EndedReservation settled = ended_reservation();
  settled.state = ReservationState::settled;
  settled.late = false;
  settled.admission = api::QuotaCode::unknown_subject_allowed;
  expect_same(settled);
}

TEST(Record, of_a_gone_reservation_is_the_same_when_it_is_read) {
  expect_same(GoneReservation{.id = 1});
  expect_same(GoneReservation{.id = UINT64_MAX, .is_part = true});
}

// A part's, which outlives its home.
constexpr uint32_t longest_lifetime_ms = limits::lifetime_ms_max + limits::part_slack_ms_max;

bool is_read(const ReservationRecord& reservation) {
  return read(bytes_of_record(reservation)).has_value();
}

template <typename Record>
bool is_read_after(Record record, const std::function<void(Record&)>& change) {
  change(record);
  return read(bytes_of_record(record)).has_value();
}

TEST(Record, of_a_reservation_is_refused_with_a_value_that_it_cannot_have) {
  using Changed = ReservationRecord;
  const std::function<void(Changed&)> changes[] = {
      [](Changed& changed) { changed.id = 0; },
      [](Changed& changed) { changed.admission = api::QuotaCode::blocked; },
      [](Changed& changed) { changed.state = static_cast<ReservationState>(5); },
      [](Changed& changed) { changed.refunded_bits = 2; },
      [](Changed& changed) { changed.lifetime_ms = longest_lifetime_ms + 1; },
      [](Changed& changed) { changed.due_ms += int64_t{longest_lifetime_ms}; },
      [](Changed& changed) { changed.due_ms = -1; },
      [](Changed& changed) { changed.amounts.input_tokens = limits::amount_max + 1; },
      [](Changed& changed) { changed.charged_ns = sample_ns + 1; },
      [](Changed& changed) { changed.order = sample_moment.order + 1; },
      [](Changed& changed) { changed.expired_order = 1; },  // it is open
      [](Changed& changed) { changed.state = ReservationState::expired; },
      [](Changed& changed) { changed.subjects_count = 0; },
      [](Changed& changed) { changed.subjects[0] = subject_of_shard(limits::shards_max); },
      [](Changed& changed) { changed.subjects[0].where = static_cast<ReservedSubject::Where>(4); },
      [](Changed& changed) {
        changed.subjects[0] = {.where = ReservedSubject::Where::other_node,
                               .node = limits::instances_max};
      },
      [](Changed& changed) { changed.has_home_at_other_node = true; },  // it is no part
  };
  ASSERT_TRUE(is_read(open_reservation()));
  for (const auto& change : changes) {
    EXPECT_FALSE(is_read_after<Changed>(open_reservation(), change)) << &change - changes;
  }
  const std::string owner(limits::client_id_bytes_max + 1, 'o');
  EXPECT_FALSE(
      is_read_after<Changed>(open_reservation(), [&](Changed& changed) { changed.owner = owner; }));
  EXPECT_FALSE(is_read_after<Changed>(full_reservation(), [](Changed& changed) {
    changed.expired_order = sample_moment.order + 1;
  }));
}

TEST(Record, of_a_reservation_may_have_the_longest_lifetime) {
  using Changed = ReservationRecord;
  const auto with_due_in = [&](int64_t in_ms) {
    return is_read_after<Changed>(open_reservation(), [&](Changed& changed) {
      changed.lifetime_ms = longest_lifetime_ms;
      changed.due_ms = sample_ns / base::ns_per_ms + in_ms;
    });
  };
  EXPECT_TRUE(with_due_in(longest_lifetime_ms));
  EXPECT_FALSE(with_due_in(int64_t{longest_lifetime_ms} + 1));
}

// A flag stands for a value that is not zero: else there would be two encodings.
TEST(Record, of_a_reservation_is_refused_with_a_flag_for_a_value_of_zero) {
  ReservationRecord reservation = full_reservation();
  reservation.expired_order = 1;
  reservation.client_id = {.low = 0xCC};
  reservation.request_hash = 0xDD;
  reservation.owner = "o";
  const Bytes good = bytes_of_record(reservation);
  ASSERT_TRUE(read(good));
  // Expired order, client's id, request hash; length and text of the owner.
  const Bytes values = bytes_of(
      {1, 0xCC, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xDD, 0, 0, 0, 0, 0, 0, 0, 1, 'o'});
  const auto found = std::search(good.begin(), good.end(), values.begin(), values.end());
  ASSERT_NE(found, good.end());
  const auto begin = found - good.begin();
  for (const int at : {0, 1, 17}) {
    Bytes bytes = good;
    bytes[static_cast<size_t>(begin + at)] = std::byte{0};
    EXPECT_FALSE(read(bytes)) << at;
  }
  Bytes without_owner = good;
  without_owner[static_cast<size_t>(begin) + 25] = std::byte{0};
  without_owner.erase(without_owner.begin() + begin + 26);
  without_owner[1] = static_cast<std::byte>(static_cast<uint8_t>(good[1]) - 1);
  EXPECT_FALSE(read(without_owner));
}

TEST(Record, of_an_ended_reservation_is_refused_with_a_value_that_it_cannot_have) {
  using Changed = EndedReservation;
  const std::function<void(Changed&)> changes[] = {
      [](Changed& changed) { changed.id = 0; },
      [](Changed& changed) { changed.state = ReservationState::open; },
      [](Changed& changed) { changed.state = ReservationState::expired; },
      [](Changed& changed) { changed.admission = api::QuotaCode::none; },
      [](Changed& changed) { changed.forgotten_ms += int64_t{longest_lifetime_ms}; },
      [](Changed& changed) { changed.amounts.cost = limits::amount_max + 1; },
  };
  ASSERT_TRUE(read(bytes_of_record(ended_reservation())));
  for (const auto& change : changes) {
    EXPECT_FALSE(is_read_after<Changed>(ended_reservation(), change)) << &change - changes;
  }
}

TEST(Record, of_a_gone_reservation_is_refused_with_a_value_that_it_cannot_have) {
  EXPECT_FALSE(read(bytes_of_record(GoneReservation{})));
  Bytes bytes = bytes_of_record(GoneReservation{.id = 1, .is_part = true});
  bytes.back() = std::byte{2};
  EXPECT_FALSE(read(bytes));
}

TEST(Record, is_refused_when_its_kind_is_unknown) {
  Bytes bytes = bytes_of_record(GoneReservation{.id = 1});
  for (const int kind : {0, 6, 255}) {
    bytes[0] = static_cast<std::byte>(kind);
    EXPECT_FALSE(read(bytes)) << kind;
  }
}

TEST(Record, is_refused_when_a_flag_is_unknown) {
  Bytes bytes = bytes_of_record(open_reservation());
  bytes[record_head_bytes + sizeof(uint64_t) + 1] |= std::byte{0x04};
  EXPECT_FALSE(read(bytes));
}

TEST(Record, is_refused_when_it_is_longer_than_its_contents) {
  Bytes bytes = bytes_of_record(GoneReservation{.id = 1});
  bytes[1] = static_cast<std::byte>(static_cast<uint8_t>(bytes[1]) + 1);
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(read(bytes));
}

TEST(Record, is_refused_when_it_is_cut_off) {
  const Bytes bytes = bytes_of_record(full_reservation());
  test::GuardedBuffer guarded(bytes.size());
  for (size_t length = 0; length < bytes.size(); ++length) {
    ByteReader reader(guarded.place(std::span(bytes).first(length)));
    EXPECT_FALSE(read_record(reader, sample_moment)) << length;
  }
}

TEST(Record, is_read_one_after_the_other) {
  const Bytes bytes = written([](ByteWriter& writer) {
    write_record(writer, open_reservation());
    write_record(writer, GoneReservation{.id = 5});
  });
  ByteReader reader(bytes);
  EXPECT_EQ(std::get<ReservationRecord>(read_record(reader, sample_moment).value()),
            open_reservation());
  EXPECT_EQ(std::get<GoneReservation>(read_record(reader, sample_moment).value()).id, 5U);
  EXPECT_EQ(reader.left(), 0U);
}

// ---- windows -----------------------------------------------------------------------------------

WindowRecord plain_window() {
  WindowRecord window = sample_window();
  window.rules_policy = window.policy;
  return window;
}

TEST(Record, of_a_window_is_the_same_when_it_is_read) {
  expect_same(sample_window());
  expect_same(plain_window());
  EXPECT_EQ(bytes_of_record(plain_window()).size(), 30U);
  WindowRecord longest = sample_window();
  const std::string key(limits::key_bytes_max, 'k');
  longest.key = key;
  longest.end_ms = base::ceil_ms(sample_ns) + limits::window_ms_max;
  longest.approved = longest.denied = UINT32_MAX;
  longest.policy = {.window_ms = limits::window_ms_max,
                    .max_requests = limits::permits_max,
                    .max_requests_in_queue = limits::queue_max};
  expect_same(longest);
}

TEST(Record, of_a_window_is_refused_with_a_value_that_it_cannot_have) {
  const std::vector<std::pair<const char*, std::function<void(WindowRecord&)>>> changes{
      {"no key", [](auto& window) { window.key = ""; }},
      {"an end behind the longest window",
       [](auto& window) { window.end_ms = base::ceil_ms(sample_ns) + limits::window_ms_max + 1; }},
      {"no length", [](auto& window) { window.policy.window_ms = 0; }},
      {"too long", [](auto& window) { window.policy.window_ms = limits::window_ms_max + 1; }},
      {"no permits", [](auto& window) { window.policy.max_requests = 0; }},
      {"too many", [](auto& window) { window.policy.max_requests = limits::permits_max + 1; }},
      {"a queue too long",
       [](auto& window) { window.policy.max_requests_in_queue = limits::queue_max + 1; }},
      {"no permits by the rules", [](auto& window) { window.rules_policy.max_requests = 0; }}};
  for (const auto& [what, change] : changes) {
    WindowRecord window = sample_window();
    change(window);
    EXPECT_FALSE(read(bytes_of_record(window))) << what;
  }
}

TEST(Record, of_a_window_names_no_policy_twice) {
  Bytes bytes = bytes_of_record(plain_window());
  const Bytes policy = written([](ByteWriter& writer) {
    writer.varint(7'200'000);
    writer.varint(50);
    writer.varint(0);
  });
  bytes.insert(bytes.end(), policy.begin(), policy.end());
  const auto length = static_cast<uint32_t>(bytes.size() - record_head_bytes);
  bytes[1] = static_cast<std::byte>(length);
  EXPECT_FALSE(read(bytes));
}

}  // namespace
}  // namespace sluice::state
