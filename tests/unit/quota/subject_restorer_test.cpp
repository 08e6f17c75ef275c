// Goal: a subject is what its newest record says; what cannot be is damage.
// Method: records by hand, and meters as another table has packed them.
#include "quota/subject_restorer.hpp"

#include <gtest/gtest.h>

#include "proto/node_hash.hpp"
#include "proto/reservation_id.hpp"
#include "quota/quota_class.hpp"
#include "quota/record_writer.hpp"
#include "unit/quota/list_sink.hpp"
#include "unit/quota/table_driver.hpp"

namespace sluice::quota {
namespace {

class NoRecords final : public StoredRecords {
 public:
  bool read(RecordTaker&, std::optional<uint32_t>) override { return true; }
};

class SubjectRestorerTest : public testing::Test {
 protected:
  static constexpr Options options{.subjects_max = 2,
                                   .reservations_max = 4,
                                   .waiters_max = 8,
                                   .name_seed = 42,
                                   .id_seed = 42,
                                   .keeps_state = true};

  // A record of a subject that has used so many tokens.
  state::StoredSubject stored(const std::string& name, uint64_t used) {
    const SubjectIndex index = before_.make(name, {tpm(100)});
    before_.use(index, used);
    writer_.begin(sink_, {});
    writer_.write_subject(index);
    before_.subjects.forget_if_idle(index);
    const ListSink::Subject& record = meters_.emplace_back(sink_.subjects.back());
    return {.name = record.name,
            .quota_class = record.quota_class,
            .reset_order = record.reset_order,
            .meters = record.meters};
  }
  state::GoneSubject gone(const std::string& name) {
    const NameHash hash = after_.subjects.hash(name);
    return {.key = {.name = {.low = hash.low, .high = hash.high}}};
  }
  RecordOrigin at(uint64_t epoch) const {
    return {.epoch = epoch, .latest = before_.clock.moment()};
  }
  // One of two nodes, to which "a" and "b" belong one each.
  const Options& of_node(uint32_t node) {
    EXPECT_NE(proto::subject_node("a", 2), proto::subject_node("b", 2));
    of_node_ = options;
    of_node_.node_slot = proto::reservation_id::slot_of_node(node);
    of_node_.nodes_count = 2;
    return of_node_;
  }
  bool take(const state::StoredRecord& record, uint64_t epoch) {
    return restorer_.take(record, at(epoch));
  }

  TableDriver before_{{.subjects_max = 100,
                       .reservations_max = 4,
                       .waiters_max = 8,
                       .name_seed = 42,
                       .id_seed = 42,
                       .keeps_state = true}};
  ListSink sink_;
  RecordWriter writer_{before_.subjects, before_.reservations, before_.log};
  std::deque<ListSink::Subject> meters_;

  const std::string text_ = quota_text(quota_of({tpm(100)}));
  const std::string other_text_ = quota_text(quota_of({tpm(50)}));
  const StoredClass class_{.id = class_id(text_), .quota = text_};
  StoredQuota run_time_{.name = "put", .quota = other_text_};
  std::vector<StoredShard> shards_{{}};
  NoRecords records_;
  TableDriver after_{options};
  Options of_node_;
  StoredState stored_{.records = records_,
                      .shards = shards_,
                      .classes = {&class_, 1},
                      .run_time_quotas = {&run_time_, 1}};
  SubjectRestorer restorer_{options, after_.book, after_.subjects, stored_};
};

TEST_F(SubjectRestorerTest, takes_the_newest_record) {
  EXPECT_TRUE(take(stored("a", 7), 5));
  EXPECT_TRUE(take(stored("a", 3), 4));
  EXPECT_EQ(restorer_.count(), 1U);
  EXPECT_EQ(after_.used(after_.find("a")), 7U);
  EXPECT_EQ(after_.subjects[after_.find("a")].mark, ChangeMark::clean);
  EXPECT_EQ(restorer_.damage(), "");
}

TEST_F(SubjectRestorerTest, does_not_take_one_that_was_forgotten_later) {
  EXPECT_TRUE(take(gone("a"), 5));
  EXPECT_TRUE(take(stored("a", 3), 4));
  EXPECT_EQ(after_.find("a"), no_subject);
}

TEST_F(SubjectRestorerTest, of_one_cut_it_takes_the_subject_that_came_after_the_forgotten_one) {
  EXPECT_TRUE(take(gone("a"), 5));
  EXPECT_TRUE(take(stored("a", 3), 5));
  EXPECT_TRUE(take(stored("a", 9), 4));
  EXPECT_EQ(after_.used(after_.find("a")), 3U);
}

TEST_F(SubjectRestorerTest, counts_those_that_find_no_room) {
  for (const char* const name : {"a", "b", "c", "c"}) EXPECT_TRUE(take(stored(name, 1), 5));
  EXPECT_EQ(restorer_.count(), 2U);
  EXPECT_EQ(restorer_.left_out_count(), 1U);
}

TEST_F(SubjectRestorerTest, leaves_out_subjects_that_another_node_owns_now) {
  SubjectRestorer restorer(of_node(proto::subject_node("a", 2)), after_.book, after_.subjects,
                           stored_);
  for (const char* const name : {"a", "b", "b"}) {
    EXPECT_TRUE(restorer.take(stored(name, 1), at(5)));
  }
  EXPECT_TRUE(restorer.take(stored("b", 2), at(4)));
  EXPECT_NE(after_.find("a"), no_subject);
  EXPECT_EQ(after_.find("b"), no_subject);
  EXPECT_EQ(restorer.count(), 1U);
  EXPECT_EQ(restorer.of_other_nodes_count(), 1U) << "each is counted once";
  EXPECT_EQ(restorer.left_out_count(), 0U);
}

TEST_F(SubjectRestorerTest, resets_one_that_has_not_seen_the_last_reset_of_all) {
  shards_[0].reset_all_order = before_.clock.order();
  EXPECT_TRUE(take(stored("a", 7), 5));
  EXPECT_EQ(after_.used(after_.find("a")), 0U);
  EXPECT_EQ(after_.subjects[after_.find("a")].reset_order, shards_[0].reset_all_order);
}

TEST_F(SubjectRestorerTest, puts_quotas_again_and_goes_on_with_their_usage) {
  EXPECT_TRUE(take(stored("put", 7), 5));
  restorer_.put_quotas();
  const Subject& subject = after_.subjects[after_.find("put")];
  EXPECT_EQ(subject.source, api::QuotaSource::run_time);
  EXPECT_TRUE(subject.configured);
  EXPECT_EQ(subject.quota->quota, quota_of({tpm(50)}));
  EXPECT_EQ(after_.used(after_.find("put")), 7U);
}

TEST_F(SubjectRestorerTest, makes_a_subject_for_a_quota_that_was_put) {
  restorer_.put_quotas();
  EXPECT_NE(after_.find("put"), no_subject);
  EXPECT_EQ(restorer_.count(), 1U);
}

TEST_F(SubjectRestorerTest, counts_once_what_has_too_long_a_name) {
  Options with_short_names = options;
  with_short_names.name_bytes_max = 2;
  SubjectRestorer without_record(with_short_names, after_.book, after_.subjects, stored_);
  without_record.put_quotas();
  EXPECT_EQ(without_record.left_out_count(), 1U);
  SubjectRestorer with_record(with_short_names, after_.book, after_.subjects, stored_);
  EXPECT_TRUE(with_record.take(stored("put", 7), at(5)));
  with_record.put_quotas();
  EXPECT_EQ(with_record.left_out_count(), 1U);
  EXPECT_EQ(with_record.count(), 0U);
  EXPECT_EQ(after_.find("put"), no_subject);
}

TEST_F(SubjectRestorerTest, sets_aside_quotas_of_subjects_that_another_node_owns_now) {
  SubjectRestorer restorer(of_node(1 - proto::subject_node("put", 2)), after_.book, after_.subjects,
                           stored_);
  EXPECT_TRUE(restorer.take(stored("put", 7), at(5)));
  restorer.put_quotas();
  EXPECT_EQ(after_.find("put"), no_subject);
  const std::vector<MovedQuota> moved = restorer.take_moved();
  ASSERT_EQ(moved.size(), 1U);
  EXPECT_EQ(moved[0].name, "put");
  EXPECT_EQ(moved[0].quota, quota_of({tpm(50)}));
}

TEST_F(SubjectRestorerTest, an_unknown_class_is_damage) {
  state::StoredSubject subject = stored("a", 7);
  subject.quota_class = 5;
  EXPECT_FALSE(take(subject, 5));
  EXPECT_EQ(restorer_.damage(), "a subject has a quota that is not there");
}

TEST_F(SubjectRestorerTest, usage_of_another_quota_is_damage) {
  state::StoredSubject subject = stored("a", 7);
  subject.meters = subject.meters.first(subject.meters.size() - 1);
  EXPECT_FALSE(take(subject, 5));
  EXPECT_EQ(restorer_.damage(), "the usage of a subject does not belong to its quota");
  EXPECT_FALSE(take(stored("b", 7), 5)) << "nothing more is taken";
}

TEST_F(SubjectRestorerTest, a_quota_that_cannot_be_read_is_damage) {
  run_time_.quota = "{}";
  restorer_.put_quotas();
  EXPECT_TRUE(restorer_.damage().starts_with("the quota that was put at run time: "));
  EXPECT_TRUE(restorer_.is_unusable()) << "it is JSON: another program may know what it means";
}

TEST_F(SubjectRestorerTest, a_quota_that_is_no_json_is_damage_of_the_file) {
  run_time_.quota = "{";
  restorer_.put_quotas();
  EXPECT_NE(restorer_.damage(), "");
  EXPECT_FALSE(restorer_.is_unusable());
}

}  // namespace
}  // namespace sluice::quota
