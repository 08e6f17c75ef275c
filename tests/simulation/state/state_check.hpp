// Compares what a start has loaded with copies that the shards made at the instants of their cuts.
// Shape:  exact where nothing was under way between shards at the cut; else a part of a call may be
//         refunded, or ended as its home says.
// Errors: reported to the run's Failure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../failure.hpp"
#include "state_books.hpp"
#include "state_copy.hpp"

namespace sluice::simulation {

// Of one cut, by shard.
using CutCopies = std::map<uint32_t, StateCopy>;

class StateCheck {
 public:
  StateCheck(const StateBooks& books, Failure& failure) : books_(books), failure_(failure) {}

  // `has_other_shards`: than those that cut.
  void compare(const CutCopies& cut, const StateCopy& loaded, bool has_other_shards);

  uint64_t compared() const { return compared_; }      // amounts that had to be equal
  uint64_t incomplete() const { return incomplete_; }  // subjects with calls between shards
  uint64_t of_several_subjects() const { return of_several_subjects_; }  // reservations
  uint64_t came_apart() const { return came_apart_; }  // of them, after they had been on one shard

 private:
  void compare_subject(const std::string& name, const StateCopy& cut, const StateCopy& loaded);
  void compare_limit(const std::string& name, const LimitCopy& cut, const LimitCopy& loaded,
                     bool is_exact);
  void compare_reservation(uint64_t id, const ReservationCopy& cut, const StateCopy& loaded,
                           bool has_other_shards);
  void check_subjects(uint64_t id, std::vector<std::string> found, uint32_t shards);
  void check_whole(const StateCopy& loaded);
  void expect_equal(uint64_t expected, uint64_t found, const std::string& what);

  const StateBooks& books_;
  Failure& failure_;
  std::set<std::string> busy_;
  uint64_t compared_ = 0;
  uint64_t incomplete_ = 0;
  uint64_t of_several_subjects_ = 0;
  uint64_t came_apart_ = 0;
};

}  // namespace sluice::simulation
