// Goal: a cut becomes parts of bounded size that hold every record once, in memory that is used
// again.
// Method: cuts of no, one and many records, read again with PartReader.
#include "state/part_builder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "state/part_reader.hpp"
#include "support/allocation_guard.hpp"
#include "unit/state/samples.hpp"

namespace sluice::state {
namespace {

constexpr ArenaBounds bounds{.subjects_max = 200, .name_bytes_max = 60'000, .reservations_max = 10};

std::vector<StoredRecord> records_of(const PartBuilder& builder) {
  std::vector<StoredRecord> records;
  for (const PartBuilder::Part part : builder.parts()) {
    tl::expected<PartReader, PartDamage> reader = PartReader::open(part);
    EXPECT_TRUE(reader);
    while (const auto record = reader->next()) records.push_back(*record);
    EXPECT_FALSE(reader->damage());
  }
  return records;
}

TEST(PartBuilder, makes_a_part_of_every_kind_of_record) {
  PartBuilder builder(bounds);
  builder.append(SubjectRecord{.name = "a"});
  builder.append(GoneSubject{.key = {.route = 7}});
  builder.append(full_reservation());
  builder.append(ended_reservation());
  builder.append(GoneReservation{.id = 8});
  EXPECT_EQ(builder.records_count(), 5U);
  builder.finish(sample_header());
  ASSERT_EQ(builder.parts().size(), 1U);
  const std::vector<StoredRecord> records = records_of(builder);
  ASSERT_EQ(records.size(), 5U);
  EXPECT_EQ(std::get<StoredSubject>(records[0]).name, "a");
  EXPECT_EQ(std::get<GoneSubject>(records[1]).key.route, 7);
  EXPECT_EQ(std::get<ReservationRecord>(records[2]), full_reservation());
  EXPECT_EQ(std::get<EndedReservation>(records[3]), ended_reservation());
  EXPECT_EQ(std::get<GoneReservation>(records[4]).id, 8U);
}

TEST(PartBuilder, writes_the_header_with_lengths_and_counts) {
  PartBuilder builder(bounds);
  builder.append(GoneReservation{.id = 8});
  builder.append(GoneReservation{.id = 9});
  builder.finish(sample_header());
  PartHeader expected = sample_header();
  expected.records_count = 2;
  expected.records_bytes = static_cast<uint32_t>(builder.parts()[0].size() - PartHeader::bytes);
  EXPECT_EQ(PartReader::open(builder.parts()[0]).value().header(), expected);
}

TEST(PartBuilder, makes_a_part_without_records_for_its_header) {
  PartBuilder builder(bounds);
  builder.finish(sample_header());
  ASSERT_EQ(builder.parts().size(), 1U);
  EXPECT_EQ(builder.parts()[0].size(), PartHeader::bytes);
  EXPECT_TRUE(records_of(builder).empty());
}

TEST(PartBuilder, begins_another_part_when_one_is_full) {
  PartBuilder builder(bounds);
  const std::string filling(50'000, 'n');
  for (int count = 0; count < 60; ++count) builder.append(SubjectRecord{.name = filling});
  builder.finish(sample_header());
  ASSERT_EQ(builder.parts().size(), 3U);
  for (const PartBuilder::Part part : builder.parts()) EXPECT_LE(part.size(), part_bytes_max);
  EXPECT_GE(builder.parts()[0].size(), full_part_bytes);
  EXPECT_EQ(records_of(builder).size(), 60U);
}

TEST(PartBuilder, makes_no_empty_part_behind_a_full_one) {
  PartBuilder builder(bounds);
  const std::string filling(50'000, 'n');
  while (builder.used_bytes() < full_part_bytes) builder.append(SubjectRecord{.name = filling});
  builder.finish(sample_header());
  EXPECT_EQ(builder.parts().size(), 1U);
}

TEST(PartBuilder, begins_anew_after_clear) {
  PartBuilder builder(bounds);
  const std::string filling(50'000, 'n');
  for (int cut = 0; cut < 3; ++cut) {
    for (int count = 0; count < 120; ++count) builder.append(SubjectRecord{.name = filling});
    builder.finish(sample_header());
    EXPECT_EQ(records_of(builder).size(), 120U);
    builder.clear();
    EXPECT_EQ(builder.used_bytes(), 0U);
    EXPECT_EQ(builder.records_count(), 0U);
    EXPECT_TRUE(builder.parts().empty());
  }
}

TEST(PartBuilder, keeps_the_classes_of_a_cut_beside_its_parts) {
  PartBuilder builder(bounds);
  builder.add_class(7, std::string("{}"));
  builder.add_class(8, R"({"limits":[]})");
  builder.finish(sample_header());
  ASSERT_EQ(builder.quota_classes().size(), 2U);
  EXPECT_EQ(builder.quota_classes()[0].id, 7U);
  EXPECT_EQ(builder.quota_classes()[0].quota, "{}");
  EXPECT_EQ(builder.quota_classes()[1].quota, R"({"limits":[]})");
  EXPECT_EQ(builder.parts()[0].size(), PartHeader::bytes);
  builder.clear();
  EXPECT_TRUE(builder.quota_classes().empty());
}

TEST(PartBuilder, keeps_the_changes_of_quotas_beside_its_parts_in_their_order) {
  PartBuilder builder(bounds);
  {
    const std::string name = "a name that is gone with the call";
    const std::string quota = R"({"limits":[]})";
    builder.change_quota({.name = name, .quota = quota, .wall_ms = 5});
  }
  builder.change_quota({.name = "b", .quota = std::nullopt, .wall_ms = 6});
  builder.finish(sample_header());
  ASSERT_EQ(builder.quota_changes().size(), 2U);
  const OwnedQuotaChange& put = builder.quota_changes()[0];
  EXPECT_EQ(put.name, "a name that is gone with the call");
  EXPECT_EQ(put.quota, R"({"limits":[]})");
  EXPECT_EQ(put.wall_ms, 5);
  const OwnedQuotaChange& removed = builder.quota_changes()[1];
  EXPECT_EQ(removed.name, "b");
  EXPECT_FALSE(removed.quota.has_value());
  EXPECT_EQ(removed.wall_ms, 6);
  EXPECT_EQ(builder.records_count(), 0U);
  EXPECT_EQ(builder.parts()[0].size(), PartHeader::bytes);
  builder.clear();
  EXPECT_TRUE(builder.quota_changes().empty());
}

TEST(PartBuilder, frees_the_pages_behind_the_first_few) {
  PartBuilder builder(bounds);
  const std::string filling(50'000, 'n');
  while (builder.used_bytes() < 8 * full_part_bytes) {
    builder.append(SubjectRecord{.name = filling});
  }
  builder.finish(sample_header());
  const std::byte* const first = builder.parts().front().data();
  const std::byte* const last = builder.parts().back().data();
  const size_t used_bytes = builder.used_bytes();
  builder.clear();
  EXPECT_NE(*first, std::byte{0});  // there is no new page to be had for the next cut
  EXPECT_EQ(*last, std::byte{0});
  EXPECT_EQ(std::count(first + used_bytes / 2, last, std::byte{0}),
            last - first - static_cast<std::ptrdiff_t>(used_bytes / 2));
}

TEST(PartBuilder, ends_a_part_that_is_just_full) {
  PartBuilder builder(bounds);
  // A record's head, the length of its name, its class and its reset take 16 bytes.
  const std::string filling(full_part_bytes / 32 - 16, 'n');
  for (int count = 0; count < 33; ++count) builder.append(SubjectRecord{.name = filling});
  builder.finish(sample_header());
  ASSERT_EQ(builder.parts().size(), 2U);
  EXPECT_EQ(builder.parts()[0].size(), PartHeader::bytes + full_part_bytes);
}

TEST(PartBuilder, reserves_as_much_as_all_records_and_headers_take) {
  const auto more = [](const ArenaBounds& with) { return arena_bytes(with) - arena_bytes({}); };
  EXPECT_EQ(arena_bytes({}), 2 * PartHeader::bytes);
  EXPECT_EQ(more({.subjects_max = 1, .name_bytes_max = 9}),
            subject_bytes_max(9, limits::quota_limits_max) + gone_bytes_max);
  EXPECT_EQ(more({.reservations_max = 1}), reservation_bytes_max + 2 * ended_bytes_max);
  const size_t records = 100'000 * (reservation_bytes_max + 2 * ended_bytes_max);
  EXPECT_EQ(more({.reservations_max = 100'000}),
            records + records / full_part_bytes * PartHeader::bytes);
}

TEST(PartBuilder, has_room_for_everything_at_its_largest) {
  constexpr ArenaBounds small{.subjects_max = 2, .name_bytes_max = 100, .reservations_max = 3};
  PartBuilder builder(small);
  const std::string name(small.name_bytes_max, 'n');
  for (uint32_t at = 0; at < small.subjects_max; ++at) {
    builder.append(SubjectRecord{.name = name});
    builder.append(GoneSubject{});
  }
  for (uint32_t at = 0; at < small.reservations_max; ++at) {
    builder.append(full_reservation());
    builder.append(ended_reservation());
    builder.append(ended_reservation());
  }
  builder.finish(sample_header());
  EXPECT_EQ(records_of(builder).size(), 13U);
  EXPECT_LE(builder.used_bytes(), arena_bytes(small));
  EXPECT_GE(builder.reserved_bytes(), arena_bytes(small));
}

TEST(PartBuilder, allocates_nothing_once_it_is_made) {
  PartBuilder builder(bounds);
  const std::string filling(50'000, 'n');
  const support::AllocationGuard guard;
  for (int cut = 0; cut < 2; ++cut) {
    for (int count = 0; count < 60; ++count) builder.append(SubjectRecord{.name = filling});
    builder.finish(sample_header());
    builder.clear();
  }
  EXPECT_EQ(guard.count(), 0U);
}

TEST(PartBuilderDeathTest, appends_nothing_to_parts_that_are_finished) {
  PartBuilder builder(bounds);
  builder.finish(sample_header());
  EXPECT_DEATH(builder.append(GoneReservation{.id = 1}), "finished");
}

}  // namespace
}  // namespace sluice::state
