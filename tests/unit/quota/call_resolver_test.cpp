// Goal:   a call is about the subjects that it names and that have a quota, or is refused for its
//         names; its request is complete, and is recognised under the client's id.
// Method: calls by hand against a table of subjects, some named by a book and some unknown.
#include "quota/call_resolver.hpp"

#include <gtest/gtest.h>

#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

using api::QuotaCall;
using api::QuotaCode;

class CallResolverTest : public testing::Test {
 protected:
  CallResolverTest() { driver_.adopt({TableDriver::rule("{t}known", {tpm(100)})}); }

  void adopt_unknown(policy::UnknownSubjects unknown) {
    rules_.unknown = unknown;
    book_ = std::make_unique<policy::QuotaBook>(rules_);
    driver_.book.adopt(*book_);
  }
  // Puts one call into the batch, and looks its subjects up.
  QuotaCode find_subjects(const Names& names, IfAbsent if_absent = IfAbsent::make,
                          QuotaCall call = {}) {
    names_ = names;
    batch_.clear();
    batch_.subjects.assign(names_.begin(), names_.end());
    call.subjects_count = static_cast<uint8_t>(names.size());
    batch_.calls.push_back(call);
    batch_.make_answers();
    SubjectHashes hashes;
    for (size_t place = 0; place < names.size() && place < hashes.size(); ++place) {
      hashes[place] = driver_.subjects.hash(names_[place]);
    }
    limited_.clear();
    return reader_.find_subjects(batch_, batch_.calls[0], hashes, if_absent, limited_);
  }
  Request request(const QuotaCall& call, const Names& names = {"{t}known"}) {
    find_subjects(names, IfAbsent::make, call);
    return reader_.request_of(batch_, batch_.calls[0], limited_);
  }

  TableDriver driver_;
  CallResolver reader_{driver_.options, driver_.book, driver_.subjects, driver_.statistics};
  policy::QuotaRules rules_{.unknown_quota = {}};
  std::unique_ptr<policy::QuotaBook> book_;
  Names names_;
  api::QuotaBatch batch_;
  LimitedSubjects limited_;
};

TEST_F(CallResolverTest, gathers_the_subjects_that_have_a_quota) {
  const SubjectIndex put = driver_.make("{t}put", {rpm(5)});
  EXPECT_EQ(find_subjects({"{t}put", "{t}unknown", "{t}known"}), QuotaCode::ok);
  ASSERT_EQ(limited_.size(), 2U);
  EXPECT_EQ(limited_[0].index, put);
  EXPECT_EQ(limited_[0].place, 0U);
  EXPECT_EQ(limited_[1].index, driver_.find("{t}known"));
  EXPECT_EQ(limited_[1].place, 2U);
  EXPECT_EQ(driver_.find("{t}unknown"), no_subject);
}

TEST_F(CallResolverTest, only_find_makes_no_subject) {
  EXPECT_EQ(find_subjects({"{t}known"}, IfAbsent::only_find), QuotaCode::ok);
  ASSERT_EQ(limited_.size(), 1U);
  EXPECT_EQ(limited_[0].index, no_subject);
  EXPECT_EQ(limited_[0].quota->shapes[0].amount, 100U);
  EXPECT_EQ(driver_.find("{t}known"), no_subject);
}

TEST_F(CallResolverTest, refuses_names_that_no_call_may_have) {
  const std::string longest(driver_.options.name_bytes_max, 'x');
  for (const Names& names : {Names{}, Names{""}, Names{longest + "x"}, Names{"{t}a", "{t}a"},
                             Names(limits::call_subjects_max + 1, "{t}a")}) {
    EXPECT_EQ(find_subjects(names), QuotaCode::invalid_subject);
    EXPECT_FALSE(reader_.has_valid_names(batch_, 0));
    EXPECT_EQ(batch_.answers[0].code, QuotaCode::invalid_subject);
  }
  EXPECT_EQ(find_subjects({longest}), QuotaCode::ok);
  EXPECT_TRUE(reader_.has_valid_names(batch_, 0));
}

TEST_F(CallResolverTest, finds_any_subjects_together) {
  for (const Names& names : {Names{"{t}a", "{u}b"}, Names{"t", "{t}b"}, Names{"{t}a", "{t}b"}}) {
    EXPECT_EQ(find_subjects(names), QuotaCode::ok);
  }
}

TEST_F(CallResolverTest, counts_unknown_subjects_and_names_the_last_one) {
  find_subjects({"{t}a", "{t}b"});
  EXPECT_EQ(driver_.statistics.unknown_subjects, 2U);
  EXPECT_EQ(reader_.unknown_subject(), "{t}b");
  reader_.begin_batch();
  EXPECT_EQ(reader_.unknown_subject(), "");
}

TEST_F(CallResolverTest, unknown_subjects_are_treated_by_the_books_rule) {
  adopt_unknown(policy::UnknownSubjects::deny);
  EXPECT_EQ(find_subjects({"a"}), QuotaCode::unknown_subject);
  rules_.unknown_quota = quota_of({rpm(3)});
  adopt_unknown(policy::UnknownSubjects::use_quota);
  EXPECT_EQ(find_subjects({"a"}), QuotaCode::ok);
  EXPECT_EQ(limited_.size(), 1U);
}

TEST_F(CallResolverTest, reports_a_full_table) {
  for (int name = 0; name < 8; ++name) {
    driver_.use(driver_.make(numbered("m", name), {tpm(100)}), 1);
  }
  EXPECT_EQ(find_subjects({"{t}known"}), QuotaCode::subjects_full);
}

TEST_F(CallResolverTest, a_request_has_every_field_of_its_call) {
  const Request made = request({.given_bits = api::given::output_tokens,
                                .lifetime_ms = 7,
                                .amounts = {.requests = 2, .output_tokens = 9},
                                .binding = 5},
                               {"{t}unknown", "{t}known"});
  EXPECT_EQ(made.amounts, (api::Amounts{.requests = 2, .output_tokens = 9}));
  EXPECT_EQ(made.connection, 5U);
  EXPECT_EQ(made.lifetime_ms, 7U);
  ASSERT_EQ(made.named().size(), 2U);
  EXPECT_EQ(made.subjects[0], no_subject);
  EXPECT_EQ(made.subjects[1], driver_.find("{t}known"));
  EXPECT_FALSE(made.id.is_set());
}

TEST_F(CallResolverTest, a_request_has_defaults_that_the_tightest_limit_still_allows) {
  rules_.lifetime_ms = 1'234;
  rules_.output_tokens = 500;
  rules_.rules = {TableDriver::rule("{t}known", {tpm(100)})};
  adopt_unknown(policy::UnknownSubjects::allow);
  EXPECT_EQ(request({}).lifetime_ms, 1'234U);
  EXPECT_EQ(request({.amounts = {.input_tokens = 30}}).amounts.output_tokens, 70U);
  EXPECT_EQ(request({.amounts = {.input_tokens = 130}}).amounts.output_tokens, 0U);
  EXPECT_EQ(request({}, {"unknown model"}).amounts.output_tokens, 500U);
}

TEST_F(CallResolverTest, the_same_request_is_recognised_under_its_id) {
  const Request first = request({.amounts = {.input_tokens = 1}, .client_id = "job"});
  const Request again = request({.amounts = {.input_tokens = 1}, .client_id = "job"});
  EXPECT_TRUE(first.id.is_set());
  EXPECT_EQ(again.id, first.id);
  EXPECT_EQ(again.request_hash, first.request_hash);
  const Request more = request({.amounts = {.input_tokens = 2}, .client_id = "job"});
  EXPECT_EQ(more.id, first.id);
  EXPECT_NE(more.request_hash, first.request_hash);
  EXPECT_NE(request({.amounts = {.input_tokens = 1}, .client_id = "other"}).id, first.id);
}

TEST_F(CallResolverTest, an_id_belongs_to_the_tag_of_its_subjects) {
  const QuotaCall call{.client_id = "job"};
  const Request one = request(call, {"{t}known"});
  EXPECT_EQ(request(call, {"{t}known", "{t}other"}).id, one.id);
  EXPECT_NE(request(call, {"{t}known", "{t}other"}).request_hash, one.request_hash);
  EXPECT_NE(request(call, {"{u}known"}).id, one.id);
}

// What no reservation follows has no id that would have to lead anywhere.
TEST_F(CallResolverTest, the_route_of_an_unknown_subject_is_for_reservations) {
  const Names unknown{"{t}unknown"};
  EXPECT_NE(request({.op = api::QuotaOp::reserve}, unknown).route, 0U);
  EXPECT_EQ(request({.op = api::QuotaOp::consume}, unknown).route, 0U);
  EXPECT_NE(request({.op = api::QuotaOp::consume, .client_id = "x"}, unknown).route, 0U);
  EXPECT_EQ(request({.op = api::QuotaOp::check}, unknown).route, 0U);
  EXPECT_EQ(request({.op = api::QuotaOp::reserve}).route, 0U) << "the subject has it";
}

}  // namespace
}  // namespace sluice::quota
