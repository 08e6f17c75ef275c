#include "http2_requests.hpp"

#include "base/limits.hpp"
#include "pick.hpp"

namespace sluice::simulation {
namespace {

using Kind = Http2Request::Kind;

// Does not become smaller on the wire, and needs CONTINUATION.
constexpr size_t continued_bytes = 20'000;
constexpr size_t too_many_bytes = limits::http_body_bytes_max + 1'500;
constexpr size_t head_bytes_above_max = limits::http_header_bytes_max + 800;

}  // namespace

Http2Requests::Http2Requests(World& world, uint32_t link) : world_(world) {
  if (world.books != nullptr) quotas_.emplace(world, link);
}

Http2Request Http2Requests::draw() {
  const uint64_t dice = world_.random.below(100);
  const bool is_quota = quotas_ && world_.random.chance(0.3);
  Http2Request request = is_quota    ? draw_quota()
                         : dice < 70 ? draw_acquire()
                         : dice < 83 ? draw_release()
                                     : draw_other();
  if (request.json) request.fields.emplace_back("accept", "application/json");
  draw_body(request);
  return request;
}

void Http2Requests::draw_body(Http2Request& request) {
  io::Random& random = world_.random;
  if (!request.body) {
    if (request.call || request.method != "POST" || !random.chance(0.4)) return;
    request.body.emplace(pick<size_t, 3>(random, {0, 5, 300}), 'b');
  }
  request.continues = random.chance(0.2);
  if (request.continues) request.fields.emplace_back("expect", "100-continue");
}

Http2Request Http2Requests::draw_quota() {
  Http2Request request{.kind = Kind::quota, .call = quotas_->draw()};
  request.method = request.call->method;
  request.target = request.call->target;
  if (!request.call->body.empty()) request.body = request.call->body;
  return request;
}

Http2Request Http2Requests::draw_acquire() {
  io::Random& random = world_.random;
  const AskedEntry entry = random_acquire(world_, true);
  const std::string target = acquire_target(world_, entry);
  if (is_forbidden(world_, entry)) return {.method = "GET", .target = target, .status = 403};
  return {.method = random.chance(0.5) ? "GET" : "POST",
          .target = target,
          .kind = entry.cost == 0 ? Kind::look : Kind::acquire,
          .key = entry.key,
          .json = random.chance(0.1)};
}

Http2Request Http2Requests::draw_release() {
  const AskedEntry entry = random_entry(world_, false);
  return {.method = "DELETE",
          .target = release_target(world_, entry),
          .kind = Kind::release,
          .key = entry.key};
}

Http2Request Http2Requests::draw_other() {
  switch (world_.random.below(10)) {
    case 0:
      return {.method = "GET", .target = "/nowhere", .status = 404};
    case 1:
      return {.method = "PUT", .target = "/rate/x", .status = 405};
    case 2:
      return {.method = "OPTIONS", .target = "/rate/x", .status = 204};
    case 3:
      return {.method = "HEAD", .target = "/rate/x", .status = 405};
    case 4:
      return {.method = "GET", .target = "/rate/x?cost=-1", .status = 400};
    case 5: {
      const bool is_continued = world_.large_messages && world_.random.chance(0.5);
      if (!is_continued && world_.random.chance(0.8)) break;
      const std::string padding(is_continued ? continued_bytes : head_bytes_above_max, '~');
      return {
          .method = "GET", .target = "/rate/x", .status = 431, .fields = {{"padding", padding}}};
    }
    default:
      break;
  }
  return {.method = "GET", .target = "/healthz", .kind = Kind::health};
}

Http2Request Http2Requests::draw_large() {
  if (world_.large_messages && world_.random.chance(0.3)) {
    return {.method = "GET", .target = "/openapi.json", .is_large = true};
  }
  Http2Request request{.method = "GET", .kind = Kind::query, .is_large = true};
  switch (world_.random.below(4)) {
    case 0:
      request.target = "/top?keys=5";
      break;
    case 1:
      request.kind = Kind::shown;
      request.target = "/debug/" + percent_encoded(random_key(world_));
      break;
    case 2:
      request.target = "/debug";
      break;
    default:
      request.target = "/metrics";
      break;
  }
  return request;
}

// Refused for its length, or when more bytes have come than the server takes; or answered as ever,
// where nobody reads it.
Http2Request Http2Requests::draw_upload() {
  io::Random& random = world_.random;
  const bool is_read = random.chance(0.6);
  Http2Request request = is_read
                             ? Http2Request{.method = "POST", .target = "/v1/check", .status = 413}
                             : draw_acquire();
  request.method = "POST";
  request.is_upload = true;
  request.body.emplace(too_many_bytes, 'b');
  if (is_read && random.chance(0.5)) {
    request.fields.emplace_back("content-length", std::to_string(too_many_bytes));
  }
  if (request.json) request.fields.emplace_back("accept", "application/json");
  return request;
}

}  // namespace sluice::simulation
