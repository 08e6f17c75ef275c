// A copy of the head of a request under /v1/, which outlives the bytes that it was received in: the
// body comes later.
#pragma once

#include <string>

#include "wire/rest_request.hpp"

namespace sluice::session {

class QuotaHead {
 public:
  explicit QuotaHead(const wire::RestQuota& request)
      : request_(request),
        method_(request.method),
        subject_(request.subject),
        reservation_(request.reservation),
        cursor_(request.cursor),
        limit_(request.limit),
        rate_style_(request.rate_style),
        headers_(request.headers),
        unknown_parameter_(request.unknown_parameter),
        invalid_parameter_(request.invalid_parameter) {}

  // Its texts are valid as long as this head.
  wire::RestQuota view() const noexcept {
    wire::RestQuota head = request_;
    head.method = method_;
    head.subject = subject_;
    head.reservation = reservation_;
    head.cursor = cursor_;
    head.limit = limit_;
    head.rate_style = rate_style_;
    head.headers = headers_;
    head.unknown_parameter = unknown_parameter_;
    head.invalid_parameter = invalid_parameter_;
    return head;
  }

 private:
  wire::RestQuota request_;  // its views dangle; view() replaces them all
  std::string method_;
  std::string subject_;
  std::string reservation_;
  std::string cursor_;
  std::string limit_;
  std::string rate_style_;
  std::string headers_;
  std::string unknown_parameter_;
  std::string invalid_parameter_;
};

}  // namespace sluice::session
