// A request under /v1/ from its head to its answer: unlike others it has a body, and may ask twice.
// Flow:   head -> its body -> read -> asked -> answered; or it waits, and asks for the limits as
//         they stand when its outcome has come.
// Lives:  one at a time and connection, on the heap: REST's quotas may allocate.
#pragma once

#include <cstdint>
#include <string>

#include "api/entry.hpp"
#include "api/quota.hpp"
#include "wire/rest_quota.hpp"

namespace sluice::session {

struct HttpQuota {
  enum class Stage : uint8_t {
    body,     // not all of it has come
    to_ask,   // its question is ready
    asked,    // and was asked
    waiting,  // in line
  };

  enum class Question : uint8_t {
    itself,
    show,   // of the reservation that it was given
    check,  // why it was not
  };

  HttpQuota(const wire::RestQuota& asked, uint8_t reply_kind)
      : endpoint(asked.endpoint),
        method(asked.method),
        subject(asked.subject),
        by_subject(asked.by_subject),
        reservation_id(asked.reservation),
        cursor(asked.cursor),
        limit(asked.limit),
        rate_style(asked.rate_style),
        headers(asked.headers),
        dry_run(asked.dry_run),
        unknown_field(asked.unknown_field),
        unclear_field(asked.unclear_field),
        kind(reply_kind) {}

  wire::RestQuota head() const noexcept {
    return {.endpoint = endpoint,
            .method = method,
            .subject = subject,
            .by_subject = by_subject,
            .reservation = reservation_id,
            .cursor = cursor,
            .limit = limit,
            .rate_style = rate_style,
            .headers = headers,
            .dry_run = dry_run,
            .unknown_field = unknown_field,
            .unclear_field = unclear_field};
  }

  void fill(api::QuotaBatch& batch) const {
    switch (question) {
      case Question::itself:
        return wire::fill_batch(request, batch);
      case Question::show:
        return wire::fill_show(reservation, batch);
      case Question::check:
        return wire::fill_check(request, batch);
    }
  }

  // It waited, and is told soon what came of it.
  bool has_outcome() const noexcept { return outcome != api::Verdict::none; }

  // The head's texts, which end with the bytes they came in.
  wire::QuotaEndpoint endpoint;
  std::string method;
  std::string subject;
  bool by_subject;
  std::string reservation_id;
  std::string cursor;
  std::string limit;
  std::string rate_style;
  std::string headers;
  wire::DryRun dry_run;
  std::string unknown_field;
  std::string unclear_field;

  std::string body;
  wire::QuotaRequest request;
  Stage stage = Stage::body;
  Question question = Question::itself;
  uint8_t kind;  // how the answer will look, as of other requests

  // Of one that waited.
  api::Verdict outcome = api::Verdict::none;
  uint64_t reservation = 0;
};

}  // namespace sluice::session
