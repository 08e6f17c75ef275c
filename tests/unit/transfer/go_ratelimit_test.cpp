// Goal: a file's format is known by its content. Method: both formats under each other's name.
#include "transfer/go_ratelimit.hpp"

#include <gtest/gtest.h>

#include "support/go_ratelimit_sample.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::transfer {
namespace {

TEST(GoRatelimit, knows_the_format_by_the_content) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_go_ratelimit_yaml(folder.file("a.db"), test::go_ratelimit_sample()));
  ASSERT_TRUE(write_go_ratelimit_sqlite(folder.file("a.yaml"), test::go_ratelimit_sample()));
  EXPECT_EQ(go_ratelimit_format(folder.file("a.db")), GoRatelimitFormat::yaml);
  EXPECT_EQ(go_ratelimit_format(folder.file("a.yaml")), GoRatelimitFormat::sqlite);
  EXPECT_EQ(read_go_ratelimit(folder.file("a.db")), test::go_ratelimit_sample());
  EXPECT_EQ(read_go_ratelimit(folder.file("a.yaml")), test::go_ratelimit_sample());
}

TEST(GoRatelimit, needs_a_file) {
  EXPECT_EQ(test::lines_of(read_go_ratelimit("/none/f")),
            "cannot be opened: No such file or directory\n");
  const test::TemporaryFolder folder;
  test::write_text(folder.file("f"), "");
  EXPECT_EQ(test::lines_of(read_go_ratelimit(folder.file("f"))), "is empty\n");
}

}  // namespace
}  // namespace sluice::transfer
