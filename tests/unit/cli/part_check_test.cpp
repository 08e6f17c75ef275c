// Goal: a part that is not as it was written is found. Method: parts of a state, whole and changed.
#include "cli/part_check.hpp"

#include <gtest/gtest.h>

#include <string>

#include "state/record.hpp"
#include "tests/support/sample_state.hpp"
#include "tests/support/stored_state.hpp"

namespace sluice::cli {
namespace {

using sluice::test::as_bytes;
using sluice::test::sample_part;

constexpr int64_t wall_ns = 20'000 * base::ns_per_day;

store::StoredPart stored(const std::string& bytes, uint64_t epoch, uint32_t shard) {
  return {.number = 1,
          .epoch = epoch,
          .shard = shard,
          .kind = static_cast<uint8_t>(state::PartKind::quotas),
          .bytes = as_bytes(bytes)};
}

TEST(PartCheck, finds_nothing_in_a_sound_part) {
  const std::string part = sample_part(5, 1, wall_ns);
  EXPECT_EQ(find_damage(stored(part, 5, 1)), std::nullopt);
  EXPECT_EQ(cut_wall_ns(as_bytes(part)), wall_ns);
}

TEST(PartCheck, finds_every_changed_bit) {
  const std::string sound = sample_part(5, 1, wall_ns);
  for (size_t bit = 0; bit < 8 * sound.size(); ++bit) {
    std::string part = sound;
    part[bit / 8] = static_cast<char>(part[bit / 8] ^ 1 << bit % 8);
    EXPECT_NE(find_damage(stored(part, 5, 1)), std::nullopt) << bit;
    EXPECT_EQ(cut_wall_ns(as_bytes(part)), std::nullopt) << bit;
  }
}

TEST(PartCheck, finds_a_part_that_is_cut_off) {
  const std::string part = sample_part(5, 1, wall_ns);
  EXPECT_EQ(find_damage(stored(part.substr(0, 120), 5, 1)), "its length is wrong");
  EXPECT_EQ(find_damage(stored("", 5, 1)), "it is not a part of a state");
}

TEST(PartCheck, finds_a_row_that_says_otherwise_than_the_part) {
  const std::string part = sample_part(5, 1, wall_ns);
  EXPECT_EQ(find_damage(stored(part, 6, 1)),
            "its row has epoch 6 and shard 1, the part itself epoch 5 and shard 1");
  EXPECT_NE(find_damage(stored(part, 5, 0)), std::nullopt);
}

// Its checksum is right: a bug wrote it.
TEST(PartCheck, finds_a_record_that_cannot_be) {
  state::PartHeader header{.epoch = 5, .records_bytes = 4, .records_count = 1};
  std::string part(state::PartHeader::bytes, '\0');
  part.append("\xff\xff\xff\xff");
  const auto records = as_bytes(part).subspan(state::PartHeader::bytes);
  state::write_header(std::as_writable_bytes(std::span(part)).first<state::PartHeader::bytes>(),
                      header, state::records_hash(records));
  EXPECT_EQ(find_damage(stored(part, 5, 0)), "one of its records has an impossible value");
  store::StoredPart other = stored(part, 5, 0);
  other.kind = static_cast<uint8_t>(state::PartKind::windows);
  EXPECT_NE(find_damage(other), std::nullopt);
  other.kind = 3;
  EXPECT_EQ(find_damage(other), std::nullopt) << "of a later version, whose bits are right";
  EXPECT_EQ(cut_wall_ns(as_bytes(part)), 0);
}

using Finding = QuotaFinding::State;

TEST(PartCheck, finds_quotas_that_no_server_can_load) {
  const std::string quota =
      R"({"limits":[{"amount":5,"metric":"tokens","name":"t","period_ms":60000}]})";
  const uint64_t id = state::quota_class_of(quota);
  EXPECT_EQ(examine(store::StoredClass{.id = id, .quota = quota}).state, Finding::sound);
  EXPECT_EQ(examine(store::StoredQuota{.name = "a", .quota = quota}).state, Finding::sound);
  std::string changed = quota;
  changed[changed.find('5')] = '9';
  const QuotaFinding other = examine(store::StoredClass{.id = id, .quota = changed});
  EXPECT_EQ(other.state, Finding::damaged);
  EXPECT_EQ(other.cause, "it is not the one that was written");
  EXPECT_EQ(examine(store::StoredQuota{.name = "a", .quota = "#"}).state, Finding::damaged);
}

TEST(PartCheck, distinguishes_damage_from_what_this_machine_lacks) {
  const std::string quota =
      R"({"limits":[{"amount":5,"kind":"calendar","metric":"tokens","name":"t","period":"day",)"
      R"("time_zone":"Mars/Olympus"}]})";
  const QuotaFinding put = examine(store::StoredQuota{.name = "a", .quota = quota});
  EXPECT_EQ(put.state, Finding::unusable);
  EXPECT_NE(put.cause.find("Mars/Olympus"), std::string::npos) << put.cause;
  const QuotaFinding found =
      examine(store::StoredClass{.id = state::quota_class_of(quota), .quota = quota});
  EXPECT_EQ(found.state, Finding::unusable);
  // Its checksum is right: an earlier program has written it so.
  EXPECT_EQ(examine(store::StoredClass{.id = state::quota_class_of("#"), .quota = "#"}).state,
            Finding::unusable);
}

}  // namespace
}  // namespace sluice::cli
