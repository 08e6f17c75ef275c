// Brings a store to another book of quotas, in slices, so that a large book stops nobody.
// Flow:   begin() once the book holds -> go_on() at each step until is_under_way() ends. A further
//         book begins anew.
// Shape:  the classes of earlier books are freed; subjects that were named, and are not any
//         more, may be forgotten when they are idle; then every name has its subject, before
//         anybody asks, so that it is listed. The quotas themselves hold at once, since each
//         subject comes to its own when it is next looked at.
// Units:  work as of Options::adopt_work: about a tenth of a microsecond.
// Errors: none; a name that finds no room has its subject when it is asked for, as others do.
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
  void go_on() noexcept;
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
  SubjectIndex subject_ = 0;  // the next one to be looked at ...
  SubjectIndex subjects_end_ = 0;
  uint32_t place_ = 0;       // ... and then the next of the book's quotas
  uint32_t scans_left_ = 0;  // that may find no room; then names without a subject stay so
};

}  // namespace sluice::quota
