// Saves what is sound of a damaged state file into a new one.
// Flow:   store::Salvage -> what is lost, and the newest whole epoch -> store::NewState.
// Shape:  an epoch is whole if no part of quotas of it is lost and each shard has one: windows do
//         not depend on one another. The newest whole one stays, with all sound parts before it:
//         what a later part says hides what earlier ones say. Later parts go, which have not all of
//         a commit. Quotas that were put stay, if they are JSON; so do the classes of records,
//         whose number is their checksum. Subjects whose class is lost go.
// Errors: std::runtime_error, one line, when there is no new file; the old one is never changed.
// Lives:  one run().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/check.hpp"
#include "store/new_state.hpp"
#include "store/salvage.hpp"

namespace sluice::cli {

struct RecoveryReport {
  store::Info made;                 // the new file
  std::vector<std::string> losses;  // a line each; none: nothing was lost
};

class StateRecovery {
 public:
  // `to` must not exist.
  StateRecovery(const std::string& from, const std::string& to);

  RecoveryReport run();

 private:
  // A part, or numbers that lead to pages that cannot be read.
  struct Entry {
    store::NumberRange numbers;
    std::optional<uint64_t> epoch;  // none: it is not known
    uint32_t shard = 0;
    uint32_t shards = 0;
    std::string damage;  // empty: it is sound
    bool is_of_quotas = true;
  };

  void read_tables();
  void read_parts();
  Entry examine_part(const store::PartRow& row);
  void find_disorder();
  uint64_t newest_whole_epoch() const;
  bool is_whole(size_t first, size_t last) const;
  void report_parts(uint64_t last_epoch);
  void write_parts(uint64_t last_epoch);
  void write_quotas(uint64_t last_epoch);
  void check_made(RecoveryReport& report);
  void lose(std::string line) { losses_.push_back(std::move(line)); }

  store::Salvage salvage_;
  store::NewState made_;
  std::vector<store::StoredMeta> meta_;
  bool has_seeds_ = false;
  std::vector<store::StoredQuota> quotas_;
  std::vector<store::StoredClass> classes_;
  std::vector<uint64_t> class_ids_;  // in order
  std::vector<Entry> entries_;       // by number
  std::vector<std::string> losses_;
};

}  // namespace sluice::cli
