// The book of quotas that holds now, and the classes of its quotas.
// Flow:   adopt(book) -> subjects see another version() and ask for their quota_of() anew.
// Errors: none; until a book is adopted an empty one holds.
// Lives:  one thread only; the adopted book outlives the next adopt(). The classes of earlier books
//         are freed in slices (free_earlier_slice), so that a large book delays no call for long.
#pragma once

#include <cstdint>
#include <string_view>

#include "policy/quota_book.hpp"
#include "quota/compiled_quota.hpp"

namespace sluice::quota {

class CurrentBook {
 public:
  // The quota of a subject, by its name. Null: the subject is unknown.
  struct OwnQuota {
    const CompiledQuota* quota = nullptr;
    api::QuotaSource source = api::QuotaSource::none;
  };

  void adopt(policy::QuotaBook& book) {
    book_ = &book;
    ++version_;
    book_classes_.begin(book.places_end());
  }

  OwnQuota quota_of(std::string_view name) {
    const policy::SubjectQuota own = book_->quota_of(name);
    if (own.quota == nullptr) return {.quota = nullptr, .source = own.source};
    return {.quota = compiled_at(own.place, *own.quota), .source = own.source};
  }
  // The class of the quota at this place in the book, made when it is first needed.
  const CompiledQuota* compiled_at(uint32_t place, const api::Quota& quota) {
    return book_classes_.of(place, quota);
  }

  bool names(std::string_view subject) const { return book_->names(subject); }
  const policy::QuotaRules& rules() const noexcept { return book_->rules(); }
  bool denies_unknown() const noexcept { return rules().unknown == policy::UnknownSubjects::deny; }
  uint32_t places_end() const noexcept { return book_->places_end(); }
  uint32_t version() const noexcept { return version_; }

  // The classes of the quotas of all books, and of those that were put.
  CompiledQuotas& classes() noexcept { return classes_; }
  bool has_earlier_classes() const noexcept { return book_classes_.has_earlier(); }
  void free_earlier_slice() noexcept { book_classes_.free_earlier_slice(); }

 private:
  CompiledQuotas classes_;
  BookCompiledQuotas book_classes_{classes_};
  policy::QuotaBook no_book_;
  policy::QuotaBook* book_ = &no_book_;
  uint32_t version_ = 0;
};

}  // namespace sluice::quota
