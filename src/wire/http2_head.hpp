// Gathers the header fields of one HTTP/2 request.
// Flow:   begin() -> add() for each field -> finish() -> HttpRequest.
// Shape:  the text of a finished head is as in HTTP/1.1, for the log; the request's views lie in
//         it. nghttp2 has checked the fields by RFC 9113 before.
// Errors: finish() gives the refusal of a head that the server does not take.
// Bounds: limits::http_header_bytes_max of fields, as in HTTP/1.1: 431.
// Lives:  one per connection; a head is gathered after the other.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "wire/http_parser.hpp"

namespace sluice::wire {

class Http2Head {
 public:
  void begin() noexcept;
  void add(std::string_view name, std::string_view value);
  // Moves the head's text to `text`, where it must stay while the request is used.
  std::optional<HttpRefused> finish(bool has_body, std::string& text, HttpRequest& request);

 private:
  struct Place {
    size_t begin = 0;
    size_t bytes = 0;
    std::string_view in(std::string_view text) const noexcept { return text.substr(begin, bytes); }
  };

  std::string_view authority() const noexcept { return authority_.empty() ? host_ : authority_; }
  void add_pseudo(std::string_view name, std::string_view value);
  void add_line(std::string_view name, std::string_view value);
  void note(std::string_view name, std::string_view value);
  std::optional<HttpRefused> refusal(bool has_body) const noexcept;

  std::string method_;
  std::string path_;
  std::string authority_;
  std::string host_;   // of the field: the same, if there are both
  std::string lines_;  // of the other fields
  std::optional<Place> accept_;
  std::optional<Place> rate_style_;
  std::optional<Place> correlation_id_;
  std::string expect_;
  uint64_t content_bytes_ = 0;
  size_t bytes_ = 0;  // of all fields, as HTTP/1.1 would have them
};

}  // namespace sluice::wire
