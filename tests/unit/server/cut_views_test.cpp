// Goal: the store gets all that a builder has, and nothing of the cut before.
// Method: two cuts, one after the other.
#include "server/cut_views.hpp"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

TEST(CutViews, have_what_the_builder_has) {
  state::PartBuilder builder({.subjects_max = 1, .name_bytes_max = 8, .reservations_max = 1});
  builder.add_class(7, "{}");
  builder.change_quota({.name = "a", .quota = "{}", .wall_ms = 5});
  builder.change_quota({.name = "b", .quota = std::nullopt, .wall_ms = 6});
  builder.finish({.epoch = 1});
  CutViews views;
  views.take(builder);
  views.add(state::PartKind::windows, builder.parts());
  ASSERT_EQ(views.parts().size(), 2U);
  EXPECT_EQ(views.parts()[0].kind, 1);
  EXPECT_EQ(views.parts()[1].kind, 2);
  EXPECT_EQ(views.parts()[0].bytes.data(), builder.parts()[0].data());
  ASSERT_EQ(views.quota_classes().size(), 1U);
  EXPECT_EQ(views.quota_classes()[0].id, 7U);
  EXPECT_EQ(views.quota_classes()[0].quota, "{}");
  ASSERT_EQ(views.quota_changes().size(), 2U);
  EXPECT_EQ(views.quota_changes()[0].quota, "{}");
  EXPECT_EQ(views.quota_changes()[0].put_at, 5);
  EXPECT_EQ(views.quota_changes()[1].name, "b");
  EXPECT_FALSE(views.quota_changes()[1].quota);
}

TEST(CutViews, have_nothing_of_the_cut_before) {
  state::PartBuilder builder({.subjects_max = 1, .name_bytes_max = 8, .reservations_max = 1});
  builder.add_class(7, "{}");
  builder.finish({.epoch = 1});
  CutViews views;
  views.take(builder);
  builder.clear();
  builder.finish({.epoch = 2});
  views.take(builder);
  EXPECT_EQ(views.parts().size(), 1U);
  EXPECT_TRUE(views.quota_classes().empty());
}

}  // namespace
}  // namespace sluice::server
