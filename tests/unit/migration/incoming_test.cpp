// Goal:   every model becomes a subject, or a complaint; every thing that is not carried is named
//         with its place.
// Method: files with one peculiarity each.
#include "migration/incoming.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/limits.hpp"
#include "migration/model_quota.hpp"

namespace sluice::migration {
namespace {

using transfer::Complaint;
using transfer::GoRatelimitFile;

constexpr int64_t now_ns = 1'763'000'000 * base::ns_per_s;

std::string text_of(const std::vector<Complaint>& complaints) {
  std::string text;
  for (const Complaint& each : complaints) text += each.place + ": " + each.text + "\n";
  return text;
}

TEST(Incoming, carries_quotas_and_usage) {
  const GoRatelimitFile file{
      .quotas = {{"a", {.max_rpm = 1}}, {"b", {.max_rpm = 2}}, {"c", {.max_rpm = 3}}},
      .usage = {{"b",
                 {.requests_wall_ns = {now_ns, now_ns},
                  .tokens = {{.wall_ns = now_ns, .count = 5}},
                  .day_start_wall_ns = now_ns,
                  .day_count = 9}},
                {"c", {.requests_wall_ns = {now_ns}, .tokens = {}, .day_start_wall_ns = {}}}}};
  const Incoming incoming = incoming_of(file, now_ns);
  ASSERT_EQ(incoming.subjects.size(), 3U);
  EXPECT_EQ(incoming.subjects[0].name, "a");
  EXPECT_EQ(incoming.subjects[1].quota, quota_of({.max_rpm = 2}));
  EXPECT_FALSE(incoming.subjects[0].usage.has_any());
  EXPECT_EQ(incoming.subjects[1].usage.day->count, 9);
  EXPECT_EQ(incoming.subjects[2].usage.requests_wall_ns.size(), 1U);
  EXPECT_EQ(text_of(incoming.left_out) + text_of(incoming.complaints), "");
  EXPECT_EQ(incoming.used_subjects, 2U);
  EXPECT_EQ(incoming.requests, 3U);
  EXPECT_EQ(incoming.token_events, 1U);
  EXPECT_EQ(incoming.days, 1U);
}

TEST(Incoming, names_each_thing_that_is_not_carried) {
  const int64_t old = now_ns - 61 * base::ns_per_s;
  const GoRatelimitFile file{
      .quotas = {{"m", {}}},
      .usage = {{"a", {.requests_wall_ns = {now_ns}, .tokens = {}, .day_start_wall_ns = {}}},
                {"m",
                 {.requests_wall_ns = {old, now_ns + 1},
                  .tokens = {{.wall_ns = old, .count = 1}, {.wall_ns = old, .count = 1}},
                  .day_start_wall_ns = 1,
                  .day_count = 1}},
                {"z", {}}}};
  const Incoming incoming = incoming_of(file, now_ns);
  EXPECT_EQ(
      text_of(incoming.left_out),
      R"(model a: its usage: it has no quota, so the library never limits it; nor does Sluicegate
model m: 1 request and 2 token entries of a minute ago or earlier, which no longer count
model m: the times of 1 request and 0 token entries in the future: they count as of now
model m: 1 request of a day that is over, or never began
model z: its usage: it has no quota, so the library never limits it; nor does Sluicegate
)");
  EXPECT_EQ(incoming.subjects.size(), 1U);
  EXPECT_TRUE(incoming.complaints.empty());
}

TEST(Incoming, complains_of_every_name_that_no_subject_may_have) {
  const GoRatelimitFile file{.quotas = {{"", {}},
                                        {"\xff", {}},
                                        {std::string(limits::key_bytes_max, 'x'), {}},
                                        {std::string(limits::key_bytes_max + 1, 'x'), {}}},
                             .usage = {{"", {}}}};
  const Incoming incoming = incoming_of(file, now_ns);
  ASSERT_EQ(incoming.complaints.size(), 3U) << text_of(incoming.complaints);
  EXPECT_EQ(incoming.complaints[0].place, "model \"\"");
  EXPECT_NE(incoming.complaints[1].text.find("65536 bytes; at most 65535"), std::string::npos);
  EXPECT_EQ(incoming.complaints[2].text, "the name is not UTF-8");
  EXPECT_EQ(text_of(incoming.left_out), "") << "its quota is there";
}

}  // namespace
}  // namespace sluice::migration
