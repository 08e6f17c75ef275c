#include "wire/http2_head.hpp"

#include "base/limits.hpp"
#include "text/number.hpp"
#include "wire/http_text.hpp"

namespace sluice::wire {

void Http2Head::begin() noexcept {
  method_.clear();
  path_.clear();
  authority_.clear();
  host_.clear();
  lines_.clear();
  expect_.clear();
  accept_.reset();
  rate_style_.reset();
  correlation_id_.reset();
  content_bytes_ = 0;
  bytes_ = 0;
}

void Http2Head::add(std::string_view name, std::string_view value) {
  bytes_ += field_line_bytes(name, value);
  if (bytes_ > limits::http_header_bytes_max) return;
  if (name.starts_with(':')) {
    add_pseudo(name, value);
  } else if (name == "host") {
    host_ = value;
  } else {
    note(name, value);
    add_line(name, value);
  }
}

void Http2Head::add_pseudo(std::string_view name, std::string_view value) {
  if (name == ":method") method_ = value;
  if (name == ":path") path_ = value;
  if (name == ":authority") authority_ = value;
}

void Http2Head::add_line(std::string_view name, std::string_view value) {
  lines_.append(name).append(": ").append(value).append("\r\n");
}

void Http2Head::note(std::string_view name, std::string_view value) {
  const Place place{.begin = lines_.size() + name.size() + 2, .bytes = value.size()};
  if (name == "accept" && !accept_) accept_ = place;
  if (name == "x-ratelimit-style" && !rate_style_) rate_style_ = place;
  if (name == "x-correlation-id" && !correlation_id_) correlation_id_ = place;
  if (name == "expect") expect_ = value;
  if (name == "content-length") content_bytes_ = text::parse_whole<uint64_t>(value).value_or(0);
}

std::optional<HttpRefused> Http2Head::refusal(bool has_body) const noexcept {
  if (bytes_ > limits::http_header_bytes_max) return http_fault::head_size;
  if (!is_valid_authority(authority())) return http_fault::host;
  if (!host_.empty() && host_ != authority()) return http_fault::host;
  if (origin_form(path_).empty()) return http_fault::target;
  if (!expect_.empty() && !equals_ignoring_case(expect_, "100-continue")) {
    return http_fault::expect;
  }
  if (has_body && content_bytes_ > limits::http_body_bytes_max) return http_fault::body_size;
  return std::nullopt;
}

std::optional<HttpRefused> Http2Head::finish(bool has_body, std::string& text,
                                             HttpRequest& request) {
  constexpr std::string_view fixed = "  HTTP/2.0\r\nHost: \r\n\r\n";
  text.clear();
  text.reserve(method_.size() + path_.size() + authority().size() + lines_.size() + fixed.size());
  text.append(method_).append(" ").append(path_).append(" HTTP/2.0\r\n");
  text.append("Host: ").append(authority()).append("\r\n");
  const size_t lines_begin = text.size();
  text.append(lines_).append("\r\n");
  const std::string_view whole = text;
  const std::string_view lines = whole.substr(lines_begin);
  request = {.method = whole.substr(0, method_.size()),
             .target = origin_form(whole.substr(method_.size() + 1, path_.size())),
             .expects_continue = has_body && !expect_.empty()};
  if (accept_) request.accept = accept_->in(lines);
  if (rate_style_) request.rate_style = rate_style_->in(lines);
  if (correlation_id_) request.correlation_id = correlation_id_->in(lines);
  return refusal(has_body);
}

}  // namespace sluice::wire
