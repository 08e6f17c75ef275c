// Goal: the words of every kind of meter are the same when they are read again, in few bytes; words
// that no meter has at that time are refused.
// Method: meters charged by hand; bytes changed by way of words that are wrong.
#include "state/meter_words.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "state/byte_reader.hpp"
#include "support/guarded_buffer.hpp"
#include "support/metered_subject.hpp"
#include "unit/state/bytes.hpp"

namespace sluice::state {
namespace {

using api::LimitKind;
using limiter::Meter;
using limiter::MeterShape;
using limiter::Moment;
using limiter::RingMeter;
using test::limit_of;
using test::MeteredSubject;

constexpr int64_t s = base::ns_per_s;
constexpr int64_t day = base::ns_per_day;
// A month of uptime, two billion calls.
constexpr Moment start{.ns = 30 * day, .wall_ns = 20'000 * day, .order = 2'000'000'000};

constexpr LimitKind kinds[] = {
    LimitKind::concurrency,  LimitKind::fixed,       LimitKind::sliding, LimitKind::gcra,
    LimitKind::anchored_day, LimitKind::rolling_day, LimitKind::calendar};

Bytes packed(MeteredSubject& subject) {
  return written(
      [&](ByteWriter& writer) { pack_meters(writer, subject.shapes(), subject.words()); });
}

bool unpacks(const Bytes& bytes, MeteredSubject& into, const Moment& latest) {
  return unpack_meters(bytes, into.shapes(), latest, into.words());
}

void expect_same(MeteredSubject& subject) {
  MeteredSubject read = subject.blank();
  ASSERT_TRUE(unpacks(packed(subject), read, subject.now()));
  EXPECT_TRUE(read.has_same_words(subject));
  read.check();
}

// Three limits that slide, as most subjects have.
MeteredSubject three_sliding() {
  return {{limit_of(LimitKind::sliding), limit_of(LimitKind::sliding, 100'000),
           limit_of(LimitKind::sliding, 1'000'000, 3'600'000)},
          start};
}

void charge_all(MeteredSubject& subject, uint64_t amount, bool is_open) {
  for (size_t at = 0; at < subject.shapes().size(); ++at) subject.charge(at, amount, is_open);
}

TEST(MeterWords, are_the_same_for_every_kind_unused_and_used) {
  for (const LimitKind kind : kinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    MeteredSubject subject({limit_of(kind)}, start);
    expect_same(subject);
    subject.next(5 * s);
    subject.charge(0, 7, true);
    subject.charge(0, 5, false);
    expect_same(subject);
  }
}

TEST(MeterWords, are_the_same_with_usage_in_every_sub_window) {
  for (const LimitKind kind : {LimitKind::sliding, LimitKind::gcra, LimitKind::rolling_day}) {
    SCOPED_TRACE(static_cast<int>(kind));
    MeteredSubject subject({limit_of(kind, 1'000'000)}, start);
    for (uint64_t step = 0; step < 100; ++step) {
      subject.charge(0, step + 1, step % 3 == 0);
      expect_same(subject);
      subject.next(subject.shapes()[0].width_ns);
    }
  }
}

TEST(MeterWords, are_the_same_with_gaps_refunds_and_resets) {
  MeteredSubject subject({limit_of(LimitKind::sliding), limit_of(LimitKind::gcra)}, start);
  const limiter::Charge first = subject.charge(0, 9, true);
  subject.charge(1, 9, true);
  subject.next(20 * s);
  charge_all(subject, 3, false);
  subject.meter(0).close(9, 4, first, subject.now());
  subject.meter(1).close(9, 4, first, subject.now());
  expect_same(subject);
  subject.meter(0).reset(subject.now());
  subject.meter(1).reset(subject.now());
  expect_same(subject);
}

TEST(MeterWords, are_the_same_after_the_amount_of_a_bucket_changed) {
  MeteredSubject before({limit_of(LimitKind::gcra, 1'000)}, start);
  before.charge(0, 500, true);
  MeteredSubject after({limit_of(LimitKind::gcra, 50)}, before.now());
  after.meter(0).take_over(before.shapes()[0], before.words(), before.now());
  expect_same(after);
}

TEST(MeterWords, are_the_same_at_their_largest) {
  MeteredSubject subject({limit_of(LimitKind::sliding), limit_of(LimitKind::gcra),
                          limit_of(LimitKind::fixed), limit_of(LimitKind::calendar)},
                         start);
  charge_all(subject, limits::amount_max, true);
  expect_same(subject);
}

TEST(MeterWords, are_the_same_for_as_many_limits_as_a_quota_has) {
  std::vector<api::Limit> limits(limits::quota_limits_max, limit_of(LimitKind::rolling_day));
  MeteredSubject subject(limits, start);
  for (uint32_t step = 0; step < limiter::rolling_day_places; ++step) {
    charge_all(subject, limits::amount_max / limiter::rolling_day_places, true);
    subject.next(subject.shapes()[0].width_ns);
  }
  expect_same(subject);
  EXPECT_LE(packed(subject).size(), limits.size() * meter_bytes_max);
}

TEST(MeterWords, take_few_bytes_when_little_is_used) {
  MeteredSubject subject = three_sliding();
  EXPECT_EQ(packed(subject).size(), 24U);
  charge_all(subject, 1'000, true);
  EXPECT_EQ(packed(subject).size(), 36U);
}

TEST(MeterWords, take_no_more_bytes_than_they_need_when_all_is_used) {
  MeteredSubject subject = three_sliding();
  for (uint32_t step = 0; step < 1'000; ++step) {
    charge_all(subject, 500, false);
    subject.next(4 * s);
  }
  EXPECT_LE(packed(subject).size(), 150U);
}

TEST(MeterWords, leave_a_ring_unread_whose_usage_is_in_the_newest_sub_window) {
  MeteredSubject subject = three_sliding();
  charge_all(subject, 10, true);
  const Bytes expected = packed(subject);
  test::GuardedBuffer guarded(8);
  const limiter::Words without_rings{.heads = subject.words().heads,
                                     .rings = reinterpret_cast<uint64_t*>(guarded.last(0).data())};
  EXPECT_EQ(
      written([&](ByteWriter& writer) { pack_meters(writer, subject.shapes(), without_rings); }),
      expected);
}

bool is_window(LimitKind kind) {
  return kind == LimitKind::fixed || kind == LimitKind::anchored_day || kind == LimitKind::calendar;
}

TEST(MeterWords, are_refused_when_they_are_of_other_limits) {
  for (const LimitKind kind : kinds) {
    for (const LimitKind other : kinds) {
      MeteredSubject subject({limit_of(kind)}, start);
      MeteredSubject several({limit_of(kind), limit_of(other)}, start);
      EXPECT_FALSE(unpacks(packed(subject), several, start));
      EXPECT_FALSE(unpacks(packed(several), subject, start));
      if (kind == other || (is_window(kind) && is_window(other))) continue;
      MeteredSubject read({limit_of(other)}, start);
      EXPECT_FALSE(unpacks(packed(subject), read, start));
    }
  }
}

TEST(MeterWords, are_refused_when_they_are_cut_off) {
  MeteredSubject subject(
      {limit_of(LimitKind::sliding), limit_of(LimitKind::gcra), limit_of(LimitKind::fixed)}, start);
  charge_all(subject, 300, true);
  const Bytes bytes = packed(subject);
  test::GuardedBuffer guarded(bytes.size());
  MeteredSubject read = subject.blank();
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto cut = guarded.place(std::span(bytes).first(length));
    EXPECT_FALSE(unpack_meters(cut, read.shapes(), subject.now(), read.words())) << length;
  }
}

TEST(MeterWords, are_refused_when_they_are_later_than_the_part) {
  for (const LimitKind kind : kinds) {
    if (kind == LimitKind::concurrency) continue;
    SCOPED_TRACE(static_cast<int>(kind));
    MeteredSubject subject({limit_of(kind)}, start);
    subject.next(40 * day);
    subject.charge(0, 1, false);
    const Bytes bytes = packed(subject);
    EXPECT_TRUE(unpacks(bytes, subject, subject.now()));
    const Moment earlier{.ns = start.ns, .wall_ns = start.wall_ns, .order = subject.now().order};
    EXPECT_FALSE(unpacks(bytes, subject, earlier));
  }
}

TEST(MeterWords, are_refused_with_a_later_sub_window_even_without_usage) {
  MeteredSubject subject({limit_of(LimitKind::sliding)}, start);
  const Bytes bytes = packed(subject);
  Moment earlier = start;
  earlier.ns -= subject.shapes()[0].width_ns;
  EXPECT_TRUE(unpacks(bytes, subject, start));
  EXPECT_FALSE(unpacks(bytes, subject, earlier));
}

TEST(MeterWords, are_refused_when_they_began_with_a_later_call) {
  MeteredSubject subject({limit_of(LimitKind::sliding)}, start);
  Moment earlier = start;
  --earlier.order;
  EXPECT_TRUE(unpacks(packed(subject), subject, start));
  EXPECT_FALSE(unpacks(packed(subject), subject, earlier));
}

// Whether words are read again after `change(first words)`, which breaks them.
bool is_read_after(LimitKind kind, const std::function<void(uint64_t*)>& change) {
  MeteredSubject subject({limit_of(kind)}, start);
  subject.charge(0, 9, true);
  change(subject.heads(0));
  MeteredSubject read = subject.blank();
  return unpacks(packed(subject), read, start);
}

TEST(MeterWords, are_refused_when_more_is_open_than_used) {
  EXPECT_FALSE(is_read_after(LimitKind::fixed, [](uint64_t* words) {
    words[Meter::open_at] = words[Meter::used_at] + 1;
  }));
  EXPECT_FALSE(is_read_after(LimitKind::sliding, [](uint64_t* words) {
    words[RingMeter::newest_open_at] = words[RingMeter::newest_used_at] + 1;
  }));
}

TEST(MeterWords, are_refused_when_a_window_has_usage_and_no_end) {
  EXPECT_FALSE(is_read_after(LimitKind::fixed, [](uint64_t* words) { words[Meter::end_at] = 0; }));
}

TEST(MeterWords, are_refused_when_more_is_used_than_can_be_counted) {
  const uint64_t too_much = limits::amount_max + 1;
  EXPECT_FALSE(
      is_read_after(LimitKind::fixed, [](uint64_t* words) { words[Meter::used_at] = too_much; }));
  const auto change_ring = [](uint64_t* words) {
    words[RingMeter::used_at] = too_much;
    words[RingMeter::newest_used_at] = too_much;
  };
  EXPECT_FALSE(is_read_after(LimitKind::sliding, change_ring));
  EXPECT_TRUE(is_read_after(LimitKind::gcra, change_ring));  // its ring counts what leaks, too
}

TEST(MeterWords, are_refused_when_sub_windows_overflow_their_sum) {
  MeteredSubject subject({limit_of(LimitKind::gcra)}, start);
  subject.charge(0, 1, false);
  Bytes bytes = packed(subject);
  MeteredSubject read = subject.blank();
  // Layout, since, newest; then the bits, and one more sub-window.
  ByteReader reader(bytes);
  reader.word<uint8_t>();
  const uint64_t since = reader.varint();
  const uint64_t newest = reader.varint();
  const auto with_sum = [&](uint64_t first, uint64_t second) {
    return written([&](ByteWriter& writer) {
      writer.word(uint8_t{4});
      writer.varint(since);
      writer.varint(newest);
      writer.varint(3);
      writer.varint(0);
      writer.varint(first);
      writer.varint(second);
      for (int zero = 0; zero < 8; ++zero) writer.varint(0);
    });
  };
  EXPECT_TRUE(unpacks(with_sum(UINT64_MAX - 1, 1), read, start));
  EXPECT_FALSE(unpacks(with_sum(UINT64_MAX, 1), read, start));
  EXPECT_FALSE(unpacks(with_sum(1, 0), read, start));
}

TEST(MeterWords, are_refused_when_a_bucket_is_fuller_than_any) {
  EXPECT_FALSE(is_read_after(LimitKind::gcra,
                             [](uint64_t* words) { words[Meter::level_at + 1] = UINT64_MAX; }));
  EXPECT_FALSE(is_read_after(
      LimitKind::gcra, [](uint64_t* words) { words[Meter::ring_level_at + 1] = UINT64_MAX; }));
  EXPECT_FALSE(is_read_after(LimitKind::gcra,
                             [](uint64_t* words) { words[Meter::slow_amount_at] = UINT64_MAX; }));
  EXPECT_FALSE(is_read_after(
      LimitKind::gcra, [](uint64_t* words) { words[Meter::changing_amount_at] = UINT64_MAX; }));
}

TEST(MeterWords, may_be_of_a_bucket_at_its_fullest) {
  EXPECT_TRUE(is_read_after(LimitKind::gcra, [](uint64_t* words) {
    words[Meter::ring_level_at + 1] = (uint64_t{1} << 58) - 1;
    words[Meter::slow_amount_at] = limits::amount_max;
    words[Meter::changing_amount_at] = limits::amount_max;
  }));
  EXPECT_FALSE(is_read_after(LimitKind::gcra, [](uint64_t* words) {
    words[Meter::ring_level_at + 1] = uint64_t{1} << 58;
  }));
}

TEST(MeterWords, are_refused_when_a_bucket_changes_or_leaks_in_the_future) {
  EXPECT_FALSE(is_read_after(LimitKind::gcra, [](uint64_t* words) {
    words[Meter::changed_at] = words[RingMeter::newest_at] + 1;
  }));
  EXPECT_FALSE(is_read_after(LimitKind::gcra, [](uint64_t* words) {
    words[Meter::leaked_at] = static_cast<uint64_t>(start.ns) + 1;
  }));
}

TEST(MeterWords, are_refused_with_sub_windows_beyond_the_ring) {
  const auto with_bits = [](uint64_t used_bits, uint64_t open_bits, bool has_usage = true) {
    return written([&](ByteWriter& writer) {
      writer.word(uint8_t{2});
      for (int zero = 0; zero < 2; ++zero) writer.varint(0);
      writer.varint(used_bits);
      writer.varint(open_bits);
      if (has_usage) writer.varint(1);
    });
  };
  MeteredSubject read({limit_of(LimitKind::sliding)}, start);
  EXPECT_TRUE(unpacks(with_bits(uint64_t{1} << 15, 0), read, start));
  EXPECT_FALSE(unpacks(with_bits(uint64_t{1} << 16, 0), read, start));
  EXPECT_FALSE(unpacks(with_bits(uint64_t{1} << 16, 0, false), read, start));
  EXPECT_FALSE(unpacks(with_bits(1, 2), read, start));
  EXPECT_FALSE(unpacks(with_bits(0, 1, false), read, start));
}

}  // namespace
}  // namespace sluice::state
