// Goal: every figure stands where its name says, and what is unknown is no figure. Method: made-up
// facts.
#include "cli/state_words.hpp"

#include <gtest/gtest.h>

#include "base/time.hpp"

namespace sluice::cli {
namespace {

constexpr int64_t commit_ns = 20'778 * base::ns_per_day + 123 * base::ns_per_ms;

store::Info sample() {
  return {.path = "/tmp/state.db",
          .schema_version = 1,
          .file_bytes = 81'920,
          .wal_bytes = 4'152,
          .unused_bytes = 16'384,
          .parts_count = 4,
          .parts_bytes = 3'000'000,
          .first_epoch = 3,
          .last_epoch = 5,
          .last_commit_wall_ns = commit_ns,
          .quota_classes_count = 6,
          .run_time_quotas_count = 7,
          .meta = {{"name_seed", "11111"},
                   {"routing_seed", "22222"},
                   {"shards", "2"},
                   {"version", "0.1.0"}}};
}

TEST(StateWords, has_a_line_for_each_fact) {
  EXPECT_EQ(info_text(sample(), commit_ns + base::ns_per_s),
            "file              /tmp/state.db\n"
            "server version    0.1.0\n"
            "shards            2\n"
            "schema version    1\n"
            "last commit       2026-11-21T00:00:00.123Z, 1.0 s ago\n"
            "parts             4, 2.9 MiB, epochs 3 to 5\n"
            "run-time quotas   7\n"
            "quota classes     6\n"
            "FILE              80.0 KiB, of which 16.0 KiB are free for new parts\n"
            "FILE-wal          4152 bytes\n");
}

TEST(StateWords, has_the_same_as_json) {
  EXPECT_EQ(text::one_line(info_json(sample(), commit_ns + 1'500 * base::ns_per_ms)),
            R"({"file":"/tmp/state.db","server_version":"0.1.0","shards":2,)"
            R"("schema_version":1,"last_commit":"2026-11-21T00:00:00.123Z",)"
            R"("last_commit_age_ms":1500,"first_epoch":3,"last_epoch":5,"parts":4,)"
            R"("parts_bytes":3000000,"run_time_quotas":7,"quota_classes":6,"file_bytes":81920,)"
            R"("unused_bytes":16384,"wal_bytes":4152})");
}

// A caller that knows them can choose names that share a bucket.
TEST(StateWords, keeps_the_seeds_to_itself) {
  for (const char* seed : {"11111", "22222"}) {
    EXPECT_EQ(info_text(sample(), 0).find(seed), std::string::npos);
    EXPECT_EQ(text::one_line(info_json(sample(), 0)).find(seed), std::string::npos);
  }
}

TEST(StateWords, has_no_figures_of_a_file_without_commits) {
  const store::Info info{.path = "s", .schema_version = 1};
  const std::string text = info_text(info, commit_ns);
  EXPECT_NE(text.find("server version    unknown\n"), std::string::npos) << text;
  EXPECT_NE(text.find("last commit       none\n"), std::string::npos) << text;
  EXPECT_NE(text.find("parts             0, 0 bytes, no epochs\n"), std::string::npos) << text;
  const text::Json json = info_json(info, commit_ns);
  for (const char* name : {"server_version", "shards", "last_commit", "last_commit_age_ms",
                           "first_epoch", "last_epoch"}) {
    EXPECT_TRUE(json[name].is_null()) << name;
  }
}

TEST(StateWords, says_when_the_newest_part_is_damaged) {
  store::Info info = sample();
  info.last_commit_wall_ns.reset();
  EXPECT_EQ(commit_text(info, commit_ns), "unknown: the newest part is damaged");
  EXPECT_TRUE(info_json(info, commit_ns)["last_commit"].is_null());
  EXPECT_EQ(info_json(info, commit_ns)["last_epoch"], 5);
}

TEST(StateWords, shows_an_age_in_a_unit_that_fits) {
  const auto age = [](int64_t ns) {
    const std::string text = commit_text(sample(), commit_ns + ns);
    return text.substr(text.find(' ') + 1);
  };
  EXPECT_EQ(age(0), "0.0 s ago");
  EXPECT_EQ(age(9'940 * base::ns_per_ms), "9.9 s ago");
  EXPECT_EQ(age(10 * base::ns_per_s), "10 s ago");
  EXPECT_EQ(age(119 * base::ns_per_s), "119 s ago");
  EXPECT_EQ(age(120 * base::ns_per_s), "2 min ago");
  EXPECT_EQ(age(7'199 * base::ns_per_s), "119 min ago");
  EXPECT_EQ(age(7'200 * base::ns_per_s), "2 h ago");
  EXPECT_EQ(age(47 * 3'600 * base::ns_per_s), "47 h ago");
  EXPECT_EQ(age(2 * base::ns_per_day), "2 d ago");
  EXPECT_EQ(age(-1), "in the future: a clock was set back, or differs");
}

TEST(StateWords, shows_a_size_in_a_unit_that_fits) {
  EXPECT_EQ(size_text(0), "0 bytes");
  EXPECT_EQ(size_text(10'239), "10239 bytes");
  EXPECT_EQ(size_text(10'240), "10.0 KiB");
  EXPECT_EQ(size_text(1'048'576), "1.0 MiB");
  EXPECT_EQ(size_text(1'610'612'736), "1.5 GiB");
  EXPECT_EQ(size_text(uint64_t{1} << 50), "1048576.0 GiB");
}

TEST(StateWords, escapes_what_a_terminal_would_interpret) {
  store::Info info = sample();
  info.path = "/tmp/\x1b[2J";
  info.meta[3].value = "\x1b[2J";
  EXPECT_EQ(info_text(info, commit_ns).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
