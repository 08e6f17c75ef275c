// Collects what is wrong with a file.
// Bounds: go_ratelimit_complaints_max; of further ones only the number is kept.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "store/failure.hpp"
#include "transfer/go_ratelimit.hpp"

namespace sluice::transfer {

class Complaints {
 public:
  void add(std::string place, std::string text);
  bool empty() const noexcept { return list_.empty(); }
  // With one more, "17 further complaints", where there were too many.
  std::vector<Complaint> take();

 private:
  std::vector<Complaint> list_;
  size_t further_count_ = 0;
};

// One of the whole file, or of a part of it.
tl::unexpected<std::vector<Complaint>> complain(std::string text, std::string place = {});

// Cause and detail of a trouble with the file; its cure is for state files.
std::string text_of(const store::Failure& failure);

// A name of a file in the path of a complaint: short, in quotes where it could be misread.
std::string shown_name(std::string_view name);

}  // namespace sluice::transfer
