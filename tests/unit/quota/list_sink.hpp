// A sink that keeps what it gets, for tests of what a cut writes.
// Lives:  the records' texts are copied.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "state/meter_words.hpp"
#include "state/state_sink.hpp"

namespace sluice::quota {

class ListSink final : public state::StateSink {
 public:
  struct Subject {
    std::string name;
    uint64_t quota_class = 0;
    uint64_t reset_order = 0;
    std::vector<std::byte> meters;
  };

  void append(const state::SubjectRecord& subject) noexcept override {
    std::vector<std::byte> bytes(subject.shapes.size() * state::meter_bytes_max);
    state::ByteWriter writer(bytes);
    state::pack_meters(writer, subject.shapes, subject.words);
    bytes.resize(writer.size());
    subjects.push_back({.name = std::string(subject.name),
                        .quota_class = subject.quota_class,
                        .reset_order = subject.reset_order,
                        .meters = std::move(bytes)});
  }
  void append(const state::GoneSubject& gone) noexcept override { gone_subjects.push_back(gone); }
  void append(const state::ReservationRecord& reservation) noexcept override {
    owners.emplace_back(reservation.owner);
    reservations.push_back(reservation);
    reservations.back().owner = {};
  }
  void append(const state::EndedReservation& end) noexcept override { ends.push_back(end); }
  void append(const state::GoneReservation& gone) noexcept override {
    gone_reservations.push_back(gone);
  }
  void add_class(uint64_t id, std::string_view quota) noexcept override {
    classes.emplace(id, quota);
    ++classes_added;
  }

  void change_quota(const state::QuotaChange& change) noexcept override {
    run_time_quotas[std::string(change.name)] = change.quota ? std::string(*change.quota) : "";
    changed_at_ms[std::string(change.name)] = change.wall_ms;
  }

  size_t count() const {
    return subjects.size() + gone_subjects.size() + reservations.size() + ends.size() +
           gone_reservations.size();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Subject& each : subjects) all.push_back(each.name);
    std::sort(all.begin(), all.end());
    return all;
  }
  void clear() { *this = ListSink(); }

  std::vector<Subject> subjects;
  std::vector<state::GoneSubject> gone_subjects;
  std::vector<state::ReservationRecord> reservations;
  std::vector<std::string> owners;  // of the reservations, by their places
  std::vector<state::EndedReservation> ends;
  std::vector<state::GoneReservation> gone_reservations;
  std::map<uint64_t, std::string> classes;
  int classes_added = 0;
  std::map<std::string, std::string> run_time_quotas;  // removed ones are empty
  std::map<std::string, int64_t> changed_at_ms;
};

}  // namespace sluice::quota
