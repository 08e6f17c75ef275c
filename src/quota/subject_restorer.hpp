// Makes a shard's subjects from their records, with the quota and the usage that they had.
// Flow:   take() each record, those of later epochs first -> put_quotas() that were put at run
//         time. The first book that is adopted brings the others to its quotas, as a reload does.
// Shape:  of several records about a name the first one counts; of one epoch, that of a subject
//         before that of a forgotten one which had its name. Subjects that another node owns now
//         are left out, and quotas that were put for them set aside.
// Errors: damage(): what the records have cannot be.
// Lives:  while the store is restored; then classes that no subject has are freed.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quota/call_clock.hpp"
#include "quota/current_book.hpp"
#include "quota/stored_state.hpp"
#include "quota/subject_table.hpp"

namespace sluice::quota {

class SubjectRestorer final : public RecordTaker {
 public:
  SubjectRestorer(const Options& options, CurrentBook& book, SubjectTable& subjects,
                  const StoredState& stored);
  ~SubjectRestorer() override;
  SubjectRestorer(const SubjectRestorer&) = delete;
  SubjectRestorer& operator=(const SubjectRestorer&) = delete;

  bool take(const state::StoredRecord& record, const RecordOrigin& origin) override;
  void put_quotas();

  // Empty: there is none.
  const std::string& damage() const noexcept { return damage_; }
  // Whether the records are sound, and only this machine or program cannot use a quota of theirs.
  bool is_unusable() const noexcept { return is_unusable_; }
  uint64_t count() const noexcept { return count_; }
  uint64_t left_out_count() const noexcept { return left_out_count_; }
  uint64_t of_other_nodes_count() const noexcept { return of_other_nodes_count_; }
  std::vector<MovedQuota> take_moved() noexcept { return std::move(moved_); }

 private:
  using Key = std::pair<uint64_t, uint64_t>;  // of a name's hash

  std::optional<api::Quota> parse(std::string_view quota, std::string_view of);
  const CompiledQuota* compile(std::string_view quota, std::string_view of);
  const CompiledQuota* quota_of_class(uint64_t id);
  void take_subject(const state::StoredSubject& subject, const RecordOrigin& origin);
  void make(const NameHash& hash, const state::StoredSubject& subject, const RecordOrigin& origin);
  void begin_epoch(uint64_t epoch);
  void put(const StoredQuota& stored);
  void note_left_out(const NameHash& hash) noexcept;
  bool is_own(std::string_view name) const noexcept;
  bool is_of_other_node(std::string_view name) const noexcept;
  void fail(std::string damage);

  const Options& options_;
  CurrentBook& book_;
  SubjectTable& subjects_;
  const StoredState& stored_;
  std::unordered_map<uint64_t, std::string_view> texts_;        // of all classes
  std::unordered_map<uint64_t, const CompiledQuota*> classes_;  // those that this shard needs
  std::set<Key> gone_;              // older records about these do not count
  std::vector<Key> gone_in_epoch_;  // likewise, from the next epoch on
  uint64_t epoch_ = 0;
  std::string damage_;
  bool is_unusable_ = false;
  uint64_t count_ = 0;
  uint64_t left_out_count_ = 0;
  uint64_t of_other_nodes_count_ = 0;
  std::vector<MovedQuota> moved_;
};

}  // namespace sluice::quota
