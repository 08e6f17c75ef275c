// Whatever a file of go-ratelimit can have is the same after it was written and read again, in
// either format, and from one to the other.
// Method: random files of any size. SEED=n repeats a run.
#include "transfer/go_ratelimit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "property/seeds.hpp"
#include "support/go_ratelimit_sample.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::transfer {
namespace {

class MadeUpFile {
 public:
  explicit MadeUpFile(uint64_t seed) : dice_(seed) {
    for (uint64_t count = dice_.below(20); count > 0; --count) file_.quotas[name()] = quota();
    for (uint64_t count = dice_.below(20); count > 0; --count) file_.usage[name()] = usage();
  }

  const GoRatelimitFile& file() const { return file_; }

 private:
  // Small ones are likely, and so is each end of the range.
  int64_t number() {
    if (dice_.percent(10)) return dice_.percent(50) ? 0 : INT64_MAX;
    return static_cast<int64_t>(dice_.below(INT64_MAX)) >> dice_.below(63);
  }

  ModelQuota quota() { return {.max_rpm = number(), .max_tpm = number(), .max_rpd = number()}; }

  ModelUsage usage() {
    ModelUsage usage{.day_count = number()};
    if (dice_.percent(80)) usage.day_start_wall_ns = number();
    for (uint64_t count = dice_.below(50); count > 0; --count) {
      usage.requests_wall_ns.push_back(number());
    }
    for (uint64_t count = dice_.below(50); count > 0; --count) {
      usage.tokens.push_back({.wall_ns = number(), .count = number()});
    }
    std::ranges::sort(usage.requests_wall_ns);
    std::ranges::stable_sort(usage.tokens, {}, &TokenEvent::wall_ns);
    return usage;
  }

  std::string name() {
    static const std::vector<std::string> hard{"",           "null",       "~",
                                               "true",       "123",        "0x1F",
                                               "1e3",        "2026-02-19", "2026-02-19T10:00:00Z",
                                               "<<",         "a: b",       "- a",
                                               "? a",        "# a",        "a #b",
                                               "{a}",        "[a]",        "*a",
                                               "&a",         "!a",         "|",
                                               ">",          "%a",         "@a",
                                               "'",          "\"",         "\\",
                                               " ",          " a ",        "a\n",
                                               "\na\n\nb\n", "\t",         "---",
                                               "...",        "=",          ".inf",
                                               "models/a"};
    if (dice_.percent(40)) return hard[dice_.below(hard.size())];
    std::string name;
    const uint64_t characters_max = dice_.percent(10) ? 2'000 : 20;
    for (uint64_t count = dice_.below(characters_max); count > 0; --count) name += character();
    return name;
  }

  // Of those that YAML can have; unit/transfer tries each.
  std::string character() {
    const uint64_t kind = dice_.below(3);
    if (kind == 0) return test::utf8_of(static_cast<uint32_t>(dice_.between(0x00, 0x7E)));
    if (kind == 1) return test::utf8_of(static_cast<uint32_t>(dice_.between(0x80, 0xD7FF)));
    return test::utf8_of(static_cast<uint32_t>(dice_.between(0x10000, 0x1FFFD)));
  }

  Dice dice_;
  GoRatelimitFile file_;
};

void expect_same(const Complained<GoRatelimitFile>& read, const GoRatelimitFile& file) {
  ASSERT_TRUE(read) << test::lines_of(read);
  EXPECT_TRUE(*read == file);
}

TEST(GoRatelimitProperty, is_the_same_after_it_was_written_and_read) {
  for (const uint64_t seed : property_seeds(100)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    const GoRatelimitFile file = MadeUpFile(seed).file();
    const test::TemporaryFolder folder(test::TemporaryFolder::memory());
    ASSERT_TRUE(write_go_ratelimit_yaml(folder.file("yaml"), file));
    const Complained<GoRatelimitFile> yaml = read_go_ratelimit(folder.file("yaml"));
    expect_same(yaml, file);
    ASSERT_TRUE(write_go_ratelimit_sqlite(folder.file("sqlite"), *yaml));
    const Complained<GoRatelimitFile> sqlite = read_go_ratelimit(folder.file("sqlite"));
    expect_same(sqlite, file);
    ASSERT_TRUE(write_go_ratelimit_yaml(folder.file("again"), *sqlite));
    EXPECT_EQ(test::file_text(folder.file("again")), test::file_text(folder.file("yaml")));
  }
}

}  // namespace
}  // namespace sluice::transfer
