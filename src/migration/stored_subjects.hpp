// The subjects of a state file, as a server would have them that starts with it now: with their
// present quotas, and meters that are up to date.
// Flow:   a state file, also beside the server that writes it -> read_stored_subjects() ->
//         outgoing_of().
// Shape:  a store restores the file, adopts the book, runs what is due, and cuts everything: so
//         resets, expired reservations and changed quotas are those of a server.
// Errors: std::runtime_error, which names the file, the cause and the cure.
// Lives:  all of one commit. The file is left as it is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/limit.hpp"
#include "migration/subject_meters.hpp"
#include "policy/quota_book.hpp"
#include "state/state_clock.hpp"

namespace sluice::migration {

struct StoredSubject {
  std::string name;
  api::Quota quota;
  SubjectMeters meters;  // of the quota's limits
};

struct StoredSubjects {
  StateMoment now;
  std::vector<StoredSubject> subjects;  // by name; those without a quota are left out
  uint64_t open_reservations = 0;
  uint64_t remembered_reservations = 0;  // that have ended
  std::string clock_warning;             // empty: no clock went back
};

// With a book, of the server's configuration file, also the subjects that it names. Null: quotas of
// a configuration file are those that the records of their subjects have. `clock` is asked when the
// file was read: a server may go on writing it.
StoredSubjects read_stored_subjects(const std::string& path, policy::QuotaBook* book,
                                    const std::function<state::MachineTime()>& clock);

}  // namespace sluice::migration
