// Goal: subjects of lost quotas go, all else stays, and the part is sound. Method: parts of a
// builder, read again.
#include "state/part_filter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <variant>
#include <vector>

#include "state/part_builder.hpp"
#include "state/part_reader.hpp"
#include "unit/state/samples.hpp"

namespace sluice::state {
namespace {

std::vector<std::byte> part_of_three_classes() {
  PartBuilder builder({.subjects_max = 9, .name_bytes_max = 8, .reservations_max = 9});
  builder.append(SubjectRecord{.name = "a", .quota_class = 7});
  builder.append(open_reservation());
  builder.append(SubjectRecord{.name = "b", .quota_class = 8});
  builder.append(SubjectRecord{.name = "c"});
  builder.append(GoneReservation{.id = 5});
  builder.append(SubjectRecord{.name = "d", .quota_class = 9});
  builder.finish(sample_header());
  const auto part = builder.parts().front();
  return {part.begin(), part.end()};
}

std::string names_in(std::span<const std::byte> part) {
  auto reader = PartReader::open(part);
  EXPECT_TRUE(reader);
  std::string names;
  while (const auto record = reader->next()) {
    const auto* const subject = std::get_if<StoredSubject>(&*record);
    names += subject != nullptr ? subject->name : "-";
  }
  EXPECT_FALSE(reader->damage());
  return names;
}

TEST(PartFilter, leaves_subjects_out_whose_class_is_lost) {
  const auto part = part_of_three_classes();
  ASSERT_EQ(names_in(part), "a-bc-d");
  const std::array<uint64_t, 2> classes{7, 9};
  const FilteredPart filtered = without_other_classes(part, classes);
  EXPECT_EQ(filtered.left_out, 1u);
  EXPECT_EQ(names_in(filtered.bytes), "a-c-d");
  PartHeader expected = read_header(part).value();
  const PartHeader header = read_header(filtered.bytes).value();
  EXPECT_LT(header.records_bytes, expected.records_bytes);
  expected.records_bytes = header.records_bytes;
  --expected.records_count;
  EXPECT_EQ(header, expected);
}

TEST(PartFilter, leaves_a_part_as_it_is_when_no_class_is_lost) {
  const auto part = part_of_three_classes();
  const std::array<uint64_t, 4> classes{7, 8, 9, 10};
  const FilteredPart filtered = without_other_classes(part, classes);
  EXPECT_EQ(filtered.left_out, 0u);
  EXPECT_TRUE(std::ranges::equal(filtered.bytes, part));
}

TEST(PartFilter, keeps_subjects_without_a_quota_and_all_else) {
  EXPECT_EQ(names_in(without_other_classes(part_of_three_classes(), {}).bytes), "-c-");
}

}  // namespace
}  // namespace sluice::state
