#include "wire/http_parser.hpp"

#include <algorithm>

// GCC 12 with sanitizers takes boost::none for uninitialized.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <boost/beast/http/basic_parser.hpp>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "wire/http_text.hpp"

namespace sluice::wire {

namespace {

namespace http = boost::beast::http;
using BeastError = boost::beast::error_code;
using BeastView = boost::beast::string_view;

std::string_view view(BeastView text) noexcept {
  return {text.data(), text.size()};
}

bool is_digits(std::string_view value) noexcept {
  return !value.empty() &&
         std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Reads one whole head in a single put(), and refuses invalid heads that Beast accepts.
class HeadReader final : public http::basic_parser<true> {
 public:
  HeadReader() {
    skip(true);  // Beast does not read the body
    header_limit(limits::http_header_bytes_max + 1);
  }

  // Reads `head`. On false cause() has the reason.
  bool read(std::string_view head) {
    BeastError error;
    put(boost::asio::const_buffer{head.data(), head.size()}, error);
    if (error && cause_.empty()) cause_ = cause_of(error);
    return !error && is_done();
  }

  std::string_view cause() const noexcept { return cause_; }
  uint16_t status() const noexcept { return status_; }

  HttpRequest request() const noexcept {
    HttpRequest request = request_;
    request.keep_alive = !has_close_ && (!request_.http_1_0 || has_keep_alive_);
    request.expects_continue = expects_continue_ && !request_.http_1_0 && has_body();
    if (asks_for_http2()) request.http2_settings = http2_settings_;
    return request;
  }

  uint64_t content_bytes() const { return content_length().value_or(0); }

 private:
  bool has_body() const noexcept { return chunked() || content_bytes() > 0; }

  // RFC 7540, 3.2. Without a body: it would come first, in HTTP/1.1.
  bool asks_for_http2() const noexcept {
    return upgrades_to_h2c_ && names_upgrade_ && names_settings_ && settings_count_ == 1 &&
           !request_.http_1_0 && !has_body();
  }

  void on_request_impl(http::verb, BeastView method, BeastView target, int version,
                       BeastError& error) override {
    request_.method = view(method);
    request_.target = origin_form(view(target));
    request_.http_1_0 = version == 10;
    if (request_.target.empty()) refuse(error, http_fault::target);
  }

  void on_field_impl(http::field field, BeastView name, BeastView field_value,
                     BeastError& error) override {
    const std::string_view value = view(field_value);
    switch (field) {
      case http::field::host:
        if (++hosts_count_ > 1) return refuse(error, "repeated Host header");
        if (!is_valid_authority(value)) return refuse(error, http_fault::host);
        return;
      case http::field::content_length:
        if (++content_lengths_count_ > 1) return refuse(error, "repeated Content-Length header");
        if (!is_digits(value)) return refuse(error, "malformed Content-Length header");
        return;
      case http::field::transfer_encoding:
        if (request_.http_1_0) return refuse(error, "Transfer-Encoding in HTTP/1.0");
        if (!equals_ignoring_case(value, "chunked")) {
          return refuse(error, "Transfer-Encoding other than chunked");
        }
        return;
      case http::field::connection:
        return on_connection(field_value);
      case http::field::expect:
        expects_continue_ = equals_ignoring_case(value, "100-continue");
        if (!expects_continue_ && !value.empty()) {
          refuse(error, http_fault::expect);
        }
        return;
      case http::field::upgrade:
        upgrades_to_h2c_ = http::token_list{field_value}.exists("h2c");
        return;
      case http::field::http2_settings:
        ++settings_count_;
        http2_settings_ = value;
        return;
      case http::field::accept:
        if (request_.accept.empty()) request_.accept = value;
        return;
      case http::field::unknown:
        return on_own_field(view(name), value);
      default:
        return;
    }
  }

  void on_own_field(std::string_view name, std::string_view value) noexcept {
    if (equals_ignoring_case(name, "X-RateLimit-Style")) {
      if (request_.rate_style.empty()) request_.rate_style = value;
    } else if (equals_ignoring_case(name, "X-Correlation-ID")) {
      if (request_.correlation_id.empty()) request_.correlation_id = value;
    }
  }

  void on_connection(BeastView value) {
    for (BeastView token : http::token_list{value}) {
      if (equals_ignoring_case(view(token), "close")) has_close_ = true;
      if (equals_ignoring_case(view(token), "keep-alive")) has_keep_alive_ = true;
      if (equals_ignoring_case(view(token), "upgrade")) names_upgrade_ = true;
      if (equals_ignoring_case(view(token), "http2-settings")) names_settings_ = true;
    }
  }

  void on_header_impl(BeastError& error) override {
    if (!request_.http_1_0 && hosts_count_ == 0) {
      refuse(error, "missing required Host header");
    }
  }

  void refuse(BeastError& error, std::string_view cause) noexcept {
    refuse(error, HttpRefused{400, cause});
  }
  void refuse(BeastError& error, const HttpRefused& fault) noexcept {
    cause_ = fault.cause;
    status_ = fault.status;
    error = http::error::bad_value;
  }

  static std::string_view cause_of(const BeastError& error) noexcept {
    if (error == http::error::bad_method) return "malformed method";
    if (error == http::error::bad_target) return "malformed request target";
    if (error == http::error::bad_version) return "malformed HTTP version";
    if (error == http::error::need_more) return "malformed HTTP version";  // or a missing one
    if (error == http::error::bad_field) return "malformed header name";
    if (error == http::error::bad_content_length) return "malformed or contradicted Content-Length";
    if (error == http::error::bad_transfer_encoding) {
      return "repeated or contradicted Transfer-Encoding";
    }
    return "malformed header value";
  }

  // A request has no status line, and its body never reaches Beast.
  void on_response_impl(int, BeastView, int, BeastError&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>&, BeastError&) override {}
  size_t on_body_impl(BeastView, BeastError&) override { return 0; }
  void on_chunk_header_impl(uint64_t, BeastView, BeastError&) override {}
  size_t on_chunk_body_impl(uint64_t, BeastView, BeastError&) override { return 0; }
  void on_finish_impl(BeastError&) override {}

  HttpRequest request_;
  std::string_view cause_;
  uint16_t status_ = 400;
  uint32_t hosts_count_ = 0;
  uint32_t content_lengths_count_ = 0;
  bool has_close_ = false;
  bool has_keep_alive_ = false;
  bool expects_continue_ = false;
  std::string_view http2_settings_;
  uint32_t settings_count_ = 0;
  bool upgrades_to_h2c_ = false;
  bool names_upgrade_ = false;   // in Connection
  bool names_settings_ = false;  // likewise
};

// True when the start line ends in a well-formed version that the server does not support.
bool is_unsupported_version(std::string_view head) noexcept {
  const std::string_view line = head.substr(0, head.find('\r'));
  if (line.size() < 9) return false;
  const std::string_view version = line.substr(line.size() - 9);
  if (!version.starts_with(" HTTP/") || version[7] != '.') return false;
  if (!is_digits(version.substr(6, 1)) || !is_digits(version.substr(8, 1))) return false;
  return version != " HTTP/1.1" && version != " HTTP/1.0";
}

// A first line of three words, none of which is a path or a version: perhaps a broken preface of
// HTTP/2.
bool is_no_http(std::string_view head) noexcept {
  const std::string_view line = head.substr(0, head.find('\r'));
  const size_t first_blank = line.find(' ');
  if (first_blank == line.npos || line.find(' ', first_blank + 1) == line.npos) return false;
  const char target_begin = line[first_blank + 1];
  return line.find("HTTP/") == line.npos && target_begin != '/' && target_begin != '*';
}

}  // namespace

HttpParsed HttpParser::parse(std::span<const std::byte> bytes) noexcept {
  switch (stage_) {
    case Stage::head:
      return parse_head(bytes);
    case Stage::no_body:
      return end_body(0);
    case Stage::sized_body:
      return parse_sized_body(bytes);
    case Stage::chunked_body:
      return parse_chunked_body(bytes);
    case Stage::refused:
      break;
  }
  return refused_;
}

void HttpParser::reset() noexcept {
  stage_ = Stage::head;
  searched_bytes_ = 0;
  line_start_ = 0;
  body_bytes_left_ = 0;
  kept_body_ = nullptr;
}

// Searches for the empty line that ends the head, from where the last call stopped. Refusals depend
// on the bytes alone, not on how they are split over calls.
HttpParsed HttpParser::parse_head(std::span<const std::byte> bytes) noexcept {
  ASSERT(bytes.size() >= searched_bytes_);
  const size_t size = std::min<size_t>(bytes.size(), limits::http_header_bytes_max);
  const std::string_view text{reinterpret_cast<const char*>(bytes.data()), size};
  if (size == 0) return HttpNeedMore{0};
  // TLS and the native protocol begin with another byte: a client on the wrong port is refused at
  // once.
  if (!is_token_char(text[0])) return refuse(400, "the request does not begin with a method");
  while (true) {
    if (line_start_ > 0 && line_start_ < size &&
        (text[line_start_] == ' ' || text[line_start_] == '\t')) {
      return refuse(400, "a header line begins with white space");
    }
    const size_t line_feed = text.find('\n', searched_bytes_);
    if (line_feed == std::string_view::npos) break;
    if (line_feed == 0 || text[line_feed - 1] != '\r') {
      return refuse(400, "a line ends without carriage return");
    }
    const bool is_empty_line = line_feed == line_start_ + 1;
    if (is_empty_line) return parse_whole_head(text.substr(0, line_feed + 1));
    searched_bytes_ = line_start_ = static_cast<uint32_t>(line_feed + 1);
  }
  searched_bytes_ = static_cast<uint32_t>(size);
  if (size == limits::http_header_bytes_max) return refuse(http_fault::head_size);
  return HttpNeedMore{0};
}

HttpParsed HttpParser::parse_whole_head(std::string_view head) noexcept {
  if (head.starts_with("PRI * HTTP/2.0\r\n")) {
    return refuse(505,
                  "HTTP/2 is switched off (--server-type echo), or its preface is wrong, or not "
                  "the first that was sent");
  }
  HeadReader reader;
  if (!reader.read(head)) {
    if (is_no_http(head)) return refuse(HttpRefused::no_answer, "neither a path nor a version");
    if (is_unsupported_version(head))
      return refuse(505, "only HTTP/1.1, HTTP/1.0, and HTTP/2 with its preface are supported");
    return refuse(reader.status(), reader.cause());
  }
  if (reader.content_bytes() > limits::http_body_bytes_max) {
    return refuse(http_fault::body_size);
  }
  body_bytes_left_ = static_cast<uint32_t>(reader.content_bytes());
  stage_ = body_bytes_left_ > 0 ? Stage::sized_body : Stage::no_body;
  if (reader.chunked()) {
    stage_ = Stage::chunked_body;
    chunked_body_.reset();
  }
  return HttpHead{reader.request(), head.size()};
}

HttpParsed HttpParser::parse_sized_body(std::span<const std::byte> bytes) noexcept {
  const size_t taken = std::min<size_t>(bytes.size(), body_bytes_left_);
  if (kept_body_ != nullptr) {
    kept_body_->append(reinterpret_cast<const char*>(bytes.data()), taken);
  }
  if (taken == body_bytes_left_) return end_body(taken);
  body_bytes_left_ -= static_cast<uint32_t>(taken);
  return HttpNeedMore{taken};
}

HttpParsed HttpParser::parse_chunked_body(std::span<const std::byte> bytes) noexcept {
  const auto [outcome, consumed_bytes] = chunked_body_.skip(bytes, kept_body_);
  switch (outcome) {
    case ChunkedBody::Outcome::need_more:
      break;
    case ChunkedBody::Outcome::end:
      return end_body(consumed_bytes);
    case ChunkedBody::Outcome::malformed:
      return refuse(400, "malformed chunk");
    case ChunkedBody::Outcome::too_much_data:
      return refuse(http_fault::body_size);
    case ChunkedBody::Outcome::too_much_framing:
      return refuse(431, "chunk extensions or trailer are too large");
  }
  return HttpNeedMore{consumed_bytes};
}

HttpParsed HttpParser::end_body(size_t consumed_bytes) noexcept {
  reset();
  return HttpBodyEnd{consumed_bytes};
}

HttpParsed HttpParser::refuse(uint16_t status, std::string_view cause) noexcept {
  const bool in_body = stage_ == Stage::chunked_body;
  stage_ = Stage::refused;
  refused_ = {.status = status, .cause = cause, .in_body = in_body};
  return refused_;
}

}  // namespace sluice::wire
