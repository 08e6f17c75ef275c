// Moves a store to another book of quotas, in slices, so that a large book delays no call for long.
// Flow:   begin() once the book holds -> run_slice() at each step while is_under_way(). A further
//         book begins anew.
// Shape:  frees the classes of earlier books; lets subjects be forgotten when they are idle if only
//         an earlier book named them; then makes a subject for every name before any call uses it,
//         so that it is listed. The quotas themselves hold at once, since each subject takes its
//         own when it is next used.
// Units:  work as of Options::adopt_work: about a tenth of a microsecond.
// Errors: none; a name that finds no room gets its subject when a call uses it, as others do.
// Lives:  one thread only.
#pragma once

#include <cstdint>
#include <string_view>

#include "quota/current_book.hpp"
#include "quota/quota_store.hpp"
#include "quota/subject_table.hpp"

namespace sluice::quota {

class BookAdoption {
 public:
  BookAdoption(const Options& options, CurrentBook& book, SubjectTable& subjects) noexcept
      : options_(options), book_(book), subjects_(subjects) {}

  void begin() noexcept;
  void run_slice() noexcept;
  bool is_under_way() const noexcept { return under_way_; }

 private:
  uint32_t step() noexcept;
  void forget_unnamed(SubjectIndex index) noexcept;
  uint32_t adopt_place(uint32_t place) noexcept;
  uint32_t adopt_name(std::string_view name) noexcept;
  bool is_own(std::string_view name) const noexcept;

  const Options& options_;
  CurrentBook& book_;
  SubjectTable& subjects_;
  bool under_way_ = false;
  SubjectIndex subject_ = 0;  // the next one to be checked ...
  SubjectIndex subjects_end_ = 0;
  uint32_t place_ = 0;       // ... and then the next of the book's quotas
  uint32_t scans_left_ = 0;  // that may find no room; then names stay without a subject
};

}  // namespace sluice::quota
