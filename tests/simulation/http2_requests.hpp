// What a client of the REST dialect asks over HTTP/2: draws one request after the other.
// Flow:   draw() -> Http2Peer, which sends it on a stream of its own.
// Lives:  as its peer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "quota_rest_calls.hpp"
#include "rest_answers.hpp"
#include "tests/support/http2_client.hpp"

namespace sluice::simulation {

struct Http2Request {
  // `query`: shards are asked, of which only so many may be at once.
  enum class Kind : uint8_t { acquire, look, release, health, shown, query, quota, other };

  bool is_decision() const {
    return kind == Kind::acquire || kind == Kind::look || kind == Kind::release;
  }
  // Of a decision.
  api::Op op() const {
    if (kind == Kind::look) return api::Op::look;
    return kind == Kind::acquire ? api::Op::acquire : api::Op::release;
  }

  std::string method;
  std::string target;
  Kind kind = Kind::other;
  int status = 200;  // of the kinds `query` and `other`
  std::string key;
  bool json = false;
  bool is_large = false;   // its answer may not fit into the window that is open
  bool is_upload = false;  // its body is larger than the server takes
  bool continues = false;  // may be answered with `100 Continue` first
  std::optional<std::string> body;
  support::Http2Client::Fields fields;
  std::optional<QuotaRestCall> call;
};

class Http2Requests {
 public:
  Http2Requests(World& world, uint32_t link);

  Http2Request draw();
  Http2Request draw_large();
  Http2Request draw_upload();
  QuotaRestCalls* quotas() { return quotas_ ? &*quotas_ : nullptr; }
  const QuotaRestCalls* quotas() const { return quotas_ ? &*quotas_ : nullptr; }

 private:
  Http2Request draw_quota();
  Http2Request draw_acquire();
  Http2Request draw_release();
  Http2Request draw_other();
  void draw_body(Http2Request& request);

  World& world_;
  std::optional<QuotaRestCalls> quotas_;
};

}  // namespace sluice::simulation
