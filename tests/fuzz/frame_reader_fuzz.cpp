// Any bytes through read_frame(), whole and in two pieces: the outcome is one of three, and a
// prefix never contradicts the whole.
#include <cstdint>
#include <cstdlib>

#include "base/limits.hpp"
#include "wire/frame_reader.hpp"

namespace {

using namespace sluice;

void require(bool condition) {
  if (!condition) std::abort();
}

void check(std::span<const std::byte> bytes, size_t frame_bytes_max) {
  const auto outcome = wire::read_frame(bytes, frame_bytes_max);
  if (const auto* complete = std::get_if<base::Complete<wire::Frame>>(&outcome)) {
    require(complete->value.data() == bytes.data());
    require(complete->value.size() == complete->consumed_bytes);
    require(complete->consumed_bytes <= bytes.size());
    require(complete->consumed_bytes <= frame_bytes_max);
    require(complete->consumed_bytes % 8 == 0 && complete->consumed_bytes > 0);
  } else if (const auto* need_more = std::get_if<base::NeedMore>(&outcome)) {
    require(need_more->total_bytes > bytes.size());
    require(need_more->total_bytes <= frame_bytes_max || bytes.size() < 4);
  } else {
    const ErrorCode code = std::get<base::Malformed>(outcome).code;
    require(code == ErrorCode::malformed || code == ErrorCode::frame_too_large);
  }
}

// The result of a prefix holds for the whole: an error stays, a length does not shrink.
void check_prefix(std::span<const std::byte> bytes, size_t split) {
  const auto part = wire::read_frame(bytes.first(split), limits::frame_bytes_max);
  const auto whole = wire::read_frame(bytes, limits::frame_bytes_max);
  if (std::holds_alternative<base::Malformed>(part)) {
    require(std::holds_alternative<base::Malformed>(whole));
  }
  const auto* need_more = std::get_if<base::NeedMore>(&part);
  const auto* complete = std::get_if<base::Complete<wire::Frame>>(&whole);
  if (need_more != nullptr && complete != nullptr) {
    require(need_more->total_bytes <= complete->consumed_bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check(bytes, limits::frame_bytes_max);
  check(bytes, 64);
  if (size > 0) check_prefix(bytes, data[size - 1] % size);
  return 0;
}
