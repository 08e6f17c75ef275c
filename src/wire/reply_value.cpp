#include "wire/reply_value.hpp"

#include "base/assert.hpp"
#include "base/overloaded.hpp"
#include "wire/content_type.hpp"
#include "wire/key_state_json.hpp"

namespace sluice::wire {
namespace {

// --- Decisions -----------------------------------------------------------------------------

struct Outcome {
  uint16_t status;
  std::string_view text;  // the error in a JSON body; also the plain body, except with 429
};

Outcome outcome(api::Verdict verdict) noexcept {
  switch (verdict) {
    case api::Verdict::approved:
      return {200, {}};
    case api::Verdict::denied:
      return {429, "rate limit exceeded"};
    case api::Verdict::wait_limit:
      return {429, "waited as long as allowed (maxWaitMillis, --max-wait-millis)"};
    case api::Verdict::not_allowed:
      return {403,
              "overrides are disabled (--requests-can-set-rate, --requests-can-mod-queue, "
              "--requests-can-set-window)"};
    case api::Verdict::never_fits:
      return {400, "cost exceeds maxRequests"};
    case api::Verdict::invalid_key:
      return {400, "invalid key"};
    case api::Verdict::table_full:
      return {503, "the key table is full (--max-keys)"};
    case api::Verdict::waiters_full:
      return {503, "too many requests are waiting (--max-waiters)"};
    case api::Verdict::connection_waiters_full:
      return {503,
              "too many requests of this connection are waiting: they hold as many places as are "
              "free (--max-waiters)"};
    case api::Verdict::key_waiters_full:
      return {503,
              "too many requests are waiting for this key: they hold as many places as are free "
              "(--max-waiters)"};
    case api::Verdict::overloaded:
      return {503, "the server is overloaded"};
    case api::Verdict::draining:
      return {503, "the server is shutting down"};
    case api::Verdict::owner_unreachable:  // in gocc's words
      return {502, "failed to forward request to correct instance"};
    case api::Verdict::none:
    case api::Verdict::queued:        // held, not answered
    case api::Verdict::withdrawn:     // only the native protocol can ask for it
    case api::Verdict::handles_full:  // likewise
      break;
  }
  constexpr bool a_rest_request_can_have_this_verdict = false;
  ASSERT(a_rest_request_can_have_this_verdict);
  return {500, {}};
}

// Whether the shard has read the key's window, so that the headers can show its state.
bool was_decided(api::Verdict verdict) noexcept {
  return verdict == api::Verdict::approved || verdict == api::Verdict::denied ||
         verdict == api::Verdict::wait_limit || verdict == api::Verdict::never_fits;
}

// --- Bodies --------------------------------------------------------------------------------

template <typename Write>
std::string_view written(std::span<std::byte> room, Write&& write) noexcept {
  HttpWriter body{room};
  write(body);
  return {reinterpret_cast<const char*>(room.data()), body.size_bytes()};
}

template <typename Write>
std::string_view written_object(std::span<std::byte> room, Write&& write_fields) noexcept {
  return written(room, [&](HttpWriter& body) {
    JsonWriter json{body};
    json.open_object();
    write_fields(json);
    json.close_object();
  });
}

// A look has none.
void write_request_id(const DecisionAnswer& answer, std::span<std::byte> room,
                      ReplyValue& value) noexcept {
  const uint64_t id = answer.detail.request_id;
  if (answer.json) {
    value.body = written_object(room, [&](JsonWriter& json) {
      if (id != 0) json.field("request_id", id);
    });
  } else if (id != 0) {
    value.body = written(room, [&](HttpWriter& body) { body.decimal_unsigned(id); });
  }
}

std::string unfit_text(std::string_view owner) {
  return "the owner of this key, " + std::string(owner) +
         ", is a gocc, which takes no such request";
}

}  // namespace

ReplyValue reply_value(const RestReply& answer, std::span<std::byte> room) noexcept {
  ReplyValue value{
      .head = {.status = answer.status, .allow = answer.allow, .content_type = answer.content_type},
      .body = answer.body};
  if (answer.json) {
    value.body = written_object(room, [&](JsonWriter& json) { json.field("error", answer.body); });
  }
  return value;
}

ReplyValue reply_value(const RestContent& answer) noexcept {
  return {.head = {.status = answer.status,
                   .content_type = answer.content_type,
                   .headers = answer.headers},
          .body = answer.body};
}

ReplyValue reply_value(const DecisionAnswer& answer, std::span<std::byte> room) noexcept {
  auto [status, text] = outcome(answer.verdict);
  std::string unfit;
  if (!answer.unfit_owner.empty()) text = unfit = unfit_text(answer.unfit_owner);
  ReplyValue value;
  value.head.status = status;
  value.head.content_type = answer.json ? application_json : text_plain;
  if (was_decided(answer.verdict)) value.head.detail = &answer.detail;
  value.head.has_retry_after = status == 429;
  if (answer.verdict == api::Verdict::approved) {
    write_request_id(answer, room, value);
  } else if (answer.json) {
    value.body = written_object(room, [&, text = text](JsonWriter& json) {
      json.field("error", text);
      json.field("key", answer.key);
    });
  } else if (status == 429) {
    value.head.content_type = {};  // gocc's denial is empty, and callers may rely on it
  } else {
    value.body = written(room, [text = text](HttpWriter& body) { body.text(text); });
  }
  return value;
}

ReplyValue reply_value(const KeyAnswer& answer, std::span<std::byte> room) noexcept {
  return {.head = {.content_type = application_json}, .body = written(room, [&](HttpWriter& body) {
                                                        JsonWriter json{body, answer.pretty};
                                                        write_key_state(answer.state, json);
                                                        body.text("\n");
                                                      })};
}

ReplyValue reply_value(const RestAnswer& answer, std::span<std::byte> room) noexcept {
  return std::visit(base::Overloaded{
                        [&](const RestContent& content) { return reply_value(content); },
                        [&](const auto& other) { return reply_value(other, room); },
                    },
                    answer);
}

}  // namespace sluice::wire
