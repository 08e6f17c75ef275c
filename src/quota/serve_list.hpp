// Subjects that have a queue to be served: something happened that may help a waiter in it.
// Shape:  a list through the subjects themselves; each is in it once at most. It has the order in
//         which they were added, so that no queue waits for ever while others move.
// Lives:  one thread only; a subject that is in the list is not forgotten.
#pragma once

#include <utility>

#include "base/assert.hpp"
#include "base/object_pool.hpp"
#include "quota/subject.hpp"

namespace sluice::quota {

class ServeList {
 public:
  explicit ServeList(base::ObjectPool<Subject>& subjects) noexcept : subjects_(subjects) {}

  bool empty() const noexcept { return first_ == no_subject; }

  // Does nothing when the subject is in the list.
  void add(SubjectIndex index) noexcept {
    Subject& subject = subjects_[index];
    if (std::exchange(subject.to_serve, true)) return;
    subject.next_to_serve = no_subject;
    (last_ == no_subject ? first_ : subjects_[last_].next_to_serve) = index;
    last_ = index;
  }

  // Takes the first one out of the list.
  SubjectIndex take() noexcept {
    ASSERT(!empty());
    const SubjectIndex index = first_;
    Subject& subject = subjects_[index];
    subject.to_serve = false;
    first_ = subject.next_to_serve;
    if (first_ == no_subject) last_ = no_subject;
    return index;
  }

  // Aborts unless the list has exactly the subjects that are marked `to_serve`.
  void check_invariants() const noexcept {
    uint32_t listed = 0;
    for (SubjectIndex at = first_; at != no_subject; at = subjects_[at].next_to_serve) {
      ASSERT(subjects_[at].to_serve);
      ++listed;
    }
    for (SubjectIndex at = 0; at < subjects_.index_end(); ++at) {
      if (subjects_.holds(at) && subjects_[at].to_serve) --listed;
    }
    ASSERT(listed == 0);
  }

 private:
  base::ObjectPool<Subject>& subjects_;
  SubjectIndex first_ = no_subject;
  SubjectIndex last_ = no_subject;
};

}  // namespace sluice::quota
