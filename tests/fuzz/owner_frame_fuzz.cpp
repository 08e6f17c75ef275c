// Any bytes through frame reader and the decoder of a lane: an answer that is read keeps every
// promise of lane_codec.hpp, and all it points to can be read.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/limits.hpp"
#include "wire/frame_reader.hpp"
#include "wire/lane_codec.hpp"

namespace {

using namespace sluice;

void require(bool condition) {
  if (!condition) std::abort();
}

void touch(std::string_view text) {
  volatile char seen = 0;
  for (const char byte : text) seen = byte;
  static_cast<void>(seen);
}

bool is_sent(api::Verdict verdict) {
  return verdict != api::Verdict::none && static_cast<uint32_t>(verdict) < api::verdicts_count;
}

struct Promises {
  void operator()(const wire::VerdictsFrame& frame) const {
    require(frame.count <= limits::frame_entries_max);
    std::vector<api::Verdict> verdicts(frame.count);
    std::vector<api::Detail> details(frame.count);
    frame.copy_to(verdicts);
    frame.copy_to(details);
    require(std::ranges::all_of(verdicts, is_sent));
    volatile uint64_t seen = 0;
    for (const api::Detail& detail : details) seen = seen + detail.request_id + detail.limit;
  }
  void operator()(const wire::GrantedFrame& frame) const {
    require(frame.entries.size() <= limits::frame_entries_max);
    size_t approved = 0;
    volatile uint64_t seen = 0;
    frame.each([&](uint32_t entry, api::Verdict verdict, const api::Detail& detail,
                   const wire::Permit& permit) {
      require(is_sent(verdict) && verdict != api::Verdict::queued);
      approved += verdict == api::Verdict::approved ? 1 : 0;
      seen = seen + entry + detail.request_id + wire::claim_of(permit).claim.key_tag;
    });
    require(frame.permits.empty() || frame.permits.size() == approved * wire::permit_bytes);
  }
  void operator()(const wire::WelcomeFrame& frame) const { touch(frame.server_version); }
  void operator()(const wire::ErrorFrame& frame) const {
    require(!error_name(frame.code).empty());
    touch(frame.text);
  }
  void operator()(const wire::GoAwayFrame& frame) const { touch(frame.reason); }
  template <typename Bare>
  void operator()(const Bare&) const {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of exactly this size, aligned as a connection's input is; a sanitizer guards its end.
  std::vector<uint64_t> words((size + 7) / 8);
  if (size > 0) std::memcpy(words.data(), data, size);
  auto bytes = std::as_bytes(std::span(words)).first(size);

  while (true) {
    const auto cut = wire::read_frame(bytes, limits::reply_bytes_max);
    const auto* complete = std::get_if<base::Complete<wire::Frame>>(&cut);
    if (complete == nullptr) return 0;
    const auto outcome = wire::decode_owner_frame(complete->value);
    if (outcome) {
      std::visit(Promises{}, outcome->body);
    } else {
      require(outcome.error() != ErrorCode::none);
    }
    bytes = bytes.subspan(complete->consumed_bytes);
  }
}
