// The head of a request under /v1/, kept beyond the bytes that it came in: its body comes later.
#pragma once

#include <string>

#include "wire/rest_request.hpp"

namespace sluice::session {

class QuotaHead {
 public:
  explicit QuotaHead(const wire::RestQuota& asked)
      : asked_(asked),
        method_(asked.method),
        subject_(asked.subject),
        reservation_(asked.reservation),
        cursor_(asked.cursor),
        limit_(asked.limit),
        rate_style_(asked.rate_style),
        headers_(asked.headers),
        unknown_field_(asked.unknown_field),
        unclear_field_(asked.unclear_field) {}

  // Its texts last as long as this head.
  wire::RestQuota view() const noexcept {
    wire::RestQuota head = asked_;
    head.method = method_;
    head.subject = subject_;
    head.reservation = reservation_;
    head.cursor = cursor_;
    head.limit = limit_;
    head.rate_style = rate_style_;
    head.headers = headers_;
    head.unknown_field = unknown_field_;
    head.unclear_field = unclear_field_;
    return head;
  }

 private:
  wire::RestQuota asked_;  // its texts have ended; view() replaces them all
  std::string method_;
  std::string subject_;
  std::string reservation_;
  std::string cursor_;
  std::string limit_;
  std::string rate_style_;
  std::string headers_;
  std::string unknown_field_;
  std::string unclear_field_;
};

}  // namespace sluice::session
