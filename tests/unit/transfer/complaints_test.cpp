// Goal: complaints are bounded, and names in them are readable. Method: direct calls.
#include "transfer/complaints.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sluice::transfer {
namespace {

std::vector<Complaint> after(size_t count) {
  Complaints complaints;
  for (size_t i = 0; i < count; ++i) complaints.add("line " + std::to_string(i), "is bad");
  EXPECT_EQ(complaints.empty(), count == 0);
  return complaints.take();
}

TEST(Complaints, keeps_the_first_and_counts_the_rest) {
  EXPECT_TRUE(after(0).empty());
  EXPECT_EQ(after(go_ratelimit_complaints_max).size(), go_ratelimit_complaints_max);
  const std::vector<Complaint> one_more = after(go_ratelimit_complaints_max + 1);
  ASSERT_EQ(one_more.size(), go_ratelimit_complaints_max + 1);
  EXPECT_EQ(one_more[99], (Complaint{"line 99", "is bad"}));
  EXPECT_EQ(one_more.back(), (Complaint{"", "1 further complaint"}));
  EXPECT_EQ(after(go_ratelimit_complaints_max + 17).back(),
            (Complaint{"", "17 further complaints"}));
}

TEST(Complaints, shows_names_that_could_be_misread_in_quotes) {
  EXPECT_EQ(shown_name("gpt-4.1"), "gpt-4.1");
  EXPECT_EQ(shown_name(""), "\"\"");
  EXPECT_EQ(shown_name("a b"), "\"a b\"");
  EXPECT_EQ(shown_name("a\nb"), "\"a\\nb\"");
  EXPECT_EQ(shown_name("a\x7F"), "\"a\\x7f\"");
  EXPECT_LT(shown_name(std::string(10'000, 'x')).size(), 100u);
}

TEST(Complaints, takes_no_cure_of_a_state_file) {
  EXPECT_EQ(text_of(store::make_failure(store::FailureKind::corrupt, "/f", "page 3")),
            "its content is damaged (page 3)");
  EXPECT_EQ(text_of(store::make_failure(store::FailureKind::busy, "/f")),
            "another program has locked it");
  EXPECT_EQ(text_of(store::make_failure(store::FailureKind::io, "/f", "no such column: a")),
            "cannot be read or written: no such column: a");
}

}  // namespace
}  // namespace sluice::transfer
