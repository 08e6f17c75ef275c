#include "transfer/complaints.hpp"

#include <utility>

#include "text/quote.hpp"

namespace sluice::transfer {

void Complaints::add(std::string place, std::string text) {
  if (list_.size() == go_ratelimit_complaints_max) {
    ++further_count_;
  } else {
    list_.push_back({.place = std::move(place), .text = std::move(text)});
  }
}

std::vector<Complaint> Complaints::take() {
  if (further_count_ == 1) list_.push_back({.place = {}, .text = "1 further complaint"});
  if (further_count_ > 1) {
    list_.push_back({.place = {}, .text = std::to_string(further_count_) + " further complaints"});
  }
  further_count_ = 0;
  return std::exchange(list_, {});
}

tl::unexpected<std::vector<Complaint>> complain(std::string text, std::string place) {
  return tl::unexpected(
      std::vector<Complaint>{{.place = std::move(place), .text = std::move(text)}});
}

std::string text_of(const store::Failure& failure) {
  // The kind of all that has none.
  if (failure.kind == store::FailureKind::io) return "cannot be read or written: " + failure.detail;
  std::string text{store::failure_cause(failure.kind)};
  if (!failure.detail.empty()) text.append(" (").append(failure.detail).append(")");
  return text;
}

std::string shown_name(std::string_view name) {
  constexpr size_t bytes_max = 64;
  constexpr size_t quotes_bytes = 2;
  const bool has_escapes = text::in_quotes(name).size() != name.size() + quotes_bytes;
  if (has_escapes || text::needs_quotes(name)) return text::quoted_excerpt(name);
  return text::shortened(name, bytes_max);
}

}  // namespace sluice::transfer
