// Any bytes as an HTTP connection: cut, routed, answered. The parser's results do not depend on how
// the bytes arrive, every call makes progress, every answer is well framed and its JSON valid.
// Shape: [how many bytes arrive at once][options][the connection's bytes]
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "wire/http_codec.hpp"
#include "wire/rest_answer.hpp"
#include "wire/rest_endpoint.hpp"

namespace {

using namespace sluice;

void require(bool condition) {
  if (!condition) std::abort();
}

struct Setting {
  size_t piece_bytes = 1;
  wire::RestOptions options;
};

// --- Answers -------------------------------------------------------------------------------

std::string_view view(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A status line, headers of printable bytes, and a body of the length in its header.
void check_answer(std::string_view answer) {
  require(answer.starts_with("HTTP/1.1 ") || answer.starts_with("HTTP/1.0 "));
  const size_t head_end = answer.find("\r\n\r\n");
  require(head_end != std::string_view::npos);
  const std::string_view head = answer.substr(0, head_end);
  const std::string_view body = answer.substr(head_end + 4);
  for (char c : head) require(c == '\r' || c == '\n' || (c >= 0x20 && c < 0x7F));
  const size_t length = head.find("\r\nContent-Length: ");
  if (length == std::string_view::npos) {
    require(body.empty());
  } else {
    require(std::strtoul(head.data() + length + 18, nullptr, 10) == body.size());
  }
  if (head.find("\r\nContent-Type: application/json") != std::string_view::npos && !body.empty()) {
    require(nlohmann::json::accept(body));
  }
}

class Answerer {
 public:
  explicit Answerer(const wire::HttpRequest& request)
      : head_{.keep_alive = request.keep_alive,
              .http_1_0 = request.http_1_0,
              .head_only = request.method == "HEAD",
              .wall_ns = static_cast<int64_t>(request.target.size()) * 1'000'000'000'000} {}

  void operator()(const wire::RestReply& reply) const {
    check([&](auto out) { return wire::encode_reply(reply, head_, out); });
  }

  void operator()(const wire::RestDecision& decision) const {
    const api::Entry& entry = decision.entry;
    require(!entry.key().empty());
    require((entry.cost == 0) == (entry.op == api::Op::look));
    require(entry.cost <= limits::permits_max);
    require(entry.wait_ms_max <= limits::wait_ms_max);
    const int64_t window_ms = decision.overrides.window_ms;
    require(window_ms == api::keep_window ||
            (window_ms >= limits::window_ms_min && window_ms <= limits::window_ms_max));
    const api::Detail detail{.limit = entry.cost, .window_ms = 1, .request_id = UINT64_MAX};
    for (api::Verdict verdict :
         {api::Verdict::approved, api::Verdict::denied, api::Verdict::wait_limit,
          api::Verdict::never_fits, api::Verdict::table_full}) {
      check([&](auto out) {
        return wire::encode_decision(
            {.verdict = verdict, .detail = detail, .key = entry.key(), .json = decision.json},
            head_, out);
      });
    }
  }

  void operator()(const wire::RestInspect& inspect) const {
    const api::KeyState state{.key = inspect.key, .window_ms = 1'000};
    check([&](auto out) { return wire::encode_key_state(state, inspect.pretty, head_, out); });
    std::vector<std::byte> out(wire::debug_key_bytes_max(inspect.key.size()));
    wire::DebugStream stream{.pretty = inspect.pretty, .chunked = false};
    const size_t bytes = wire::encode_debug_key(stream, state, out);
    require(nlohmann::json::accept("{" + std::string(view({out.data(), bytes})) + "}"));
  }

  void operator()(const wire::RestDebug&) const {}

  void operator()(const wire::RestOfAllNodes& asked) const {
    require(!asked.method.empty() && asked.target.find('?') != std::string_view::npos);
  }
  void operator()(const wire::RestHealth&) const {}
  void operator()(const wire::RestMetrics&) const {}
  void operator()(const wire::RestOpenapi&) const {}

  void operator()(const wire::RestQuota& quota) const {
    require(wire::has_method(wire::quota_endpoint(quota.endpoint), quota.method));
    check([&](auto out) {
      return wire::encode_content({.status = 429,
                                   .content_type = "application/json",
                                   .headers = "RateLimit: \"a\";r=1\r\n",
                                   .body = "{}"},
                                  head_, out);
    });
  }
  void operator()(const wire::RestTop& top) const {
    require(top.keys_max >= 1 && top.keys_max <= limits::top_keys_max);
  }

 private:
  template <typename Encode>
  void check(Encode encode) const {
    static std::vector<std::byte> out(wire::decision_bytes_max(limits::key_bytes_max, true));
    check_answer(view({out.data(), encode(std::span{out})}));
  }

  wire::ReplyContext head_;
};

void answer(const wire::HttpRequest& request, const wire::RestOptions& options) {
  std::vector<char> key_buffer(request.target.size());
  const wire::RestRequest routed = wire::route_request(request, options, key_buffer);
  std::visit(Answerer{request}, routed);
}

// --- The connection ------------------------------------------------------------------------

void append(std::string& reported, std::string_view text) {
  reported.append(text).push_back('\n');
}

void append_report(std::string& reported, const wire::HttpRequest& request) {
  for (std::string_view text :
       {request.method, request.target, request.accept, request.rate_style}) {
    append(reported, text);
  }
  append(reported, request.keep_alive ? "keep" : "close");
  append(reported, request.expects_continue ? "expects" : "");
  append(reported, request.http_1_0 ? "1.0" : "1.1");
}

// Returns a parser's results for `stream` when so many bytes arrive at once. Each call sees a copy
// of exact size if `guarded`, so that a sanitizer sees a read past its end.
std::string listen(std::span<const std::byte> stream, const Setting& setting, bool guarded) {
  wire::HttpParser parser;
  std::string reported;
  size_t consumed = 0;
  size_t arrived = 0;
  size_t idle_calls = 0;
  while (true) {
    std::span<const std::byte> bytes = stream.subspan(consumed, arrived - consumed);
    std::vector<std::byte> copy;
    if (guarded) {
      copy.assign(bytes.begin(), bytes.end());
      bytes = copy;
    }
    const wire::HttpParsed parsed = parser.parse(bytes);
    size_t step = 0;
    if (const auto* refused = std::get_if<wire::HttpRefused>(&parsed)) {
      append(reported, refused->cause);
      Answerer{{}}(wire::refusal_reply(refused->status, refused->cause));
      return reported + std::to_string(refused->status);
    }
    if (const auto* head = std::get_if<wire::HttpHead>(&parsed)) {
      step = head->consumed_bytes;
      require(step >= 16 && step <= limits::http_header_bytes_max);
      append_report(reported, head->request);
      if (guarded) answer(head->request, setting.options);
    } else if (const auto* end = std::get_if<wire::HttpBodyEnd>(&parsed)) {
      step = end->consumed_bytes;
      require(parser.idle());
      append(reported, "end " + std::to_string(consumed + step));
    } else {
      step = std::get<wire::HttpNeedMore>(parsed).consumed_bytes;
      if (arrived == stream.size()) return reported;
      arrived = std::min(stream.size(), arrived + setting.piece_bytes);
    }
    require(step <= bytes.size());
    consumed += step;
    // Only a body that is not there may end without a byte.
    idle_calls =
        step == 0 && std::holds_alternative<wire::HttpBodyEnd>(parsed) ? idle_calls + 1 : 0;
    require(idle_calls <= 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  Setting setting;
  setting.piece_bytes = 4U * data[0] + 7;
  setting.options.requests_can_set_rate = (data[1] & 1) == 0;
  setting.options.requests_can_mod_queue = (data[1] & 2) == 0;
  setting.options.requests_can_set_window = (data[1] & 8) == 0;
  setting.options.key_bytes_max = (data[1] & 4) == 0 ? 1'024 : 8;
  const auto stream = std::as_bytes(std::span(data + 2, size - 2));
  const std::string in_pieces = listen(stream, setting, true);
  setting.piece_bytes = 1;
  require(listen(stream, setting, false) == in_pieces);
  setting.piece_bytes = stream.size();
  require(listen(stream, setting, false) == in_pieces);
  return 0;
}
