#include "quota_reports.hpp"

#include <cstdlib>

namespace sluice::simulation {
namespace {

constexpr std::string_view field = "\"reservation\":\"";
constexpr size_t id_digits = 16;

}  // namespace

// HTTP/1.1 begins with `H`, HTTP/2 with a frame of SETTINGS or behind 101; native frames with a
// small number of segments, of four bytes.
QuotaReports::Protocol QuotaReports::protocol_of(const Bytes& begin) {
  constexpr std::string_view upgraded = "HTTP/1.1 101 ";
  constexpr size_t type_at = 3;
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  if (text.starts_with('H')) {
    if (text.size() < upgraded.size()) return Protocol::unknown;
    return text.starts_with(upgraded) ? Protocol::http2 : Protocol::http1;
  }
  if (text.size() <= type_at) return Protocol::unknown;
  return text[type_at] == SentFrame::settings ? Protocol::http2 : Protocol::native;
}

void QuotaReports::on_taken(uint32_t link, std::span<const std::byte> bytes) {
  Stream& stream = streams_[link];
  const Protocol before = stream.protocol;
  if (before == Protocol::unknown || before == Protocol::native) {
    stream.bytes.insert(stream.bytes.end(), bytes.begin(), bytes.end());
    bytes = stream.bytes;
  }
  if (before == Protocol::unknown) stream.protocol = protocol_of(stream.bytes);
  switch (stream.protocol) {
    case Protocol::unknown:
      return;
    case Protocol::native:
      return read_frames(stream.bytes);
    case Protocol::http1:
      stream.text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return read_text(stream.text);
    case Protocol::http2:
      return read_http2(stream, bytes);
  }
}

void QuotaReports::read_http2(Stream& stream, std::span<const std::byte> bytes) {
  stream.frames.add(bytes, [&](const SentFrame& frame) {
    if (frame.type == SentFrame::data) stream.bodies[frame.stream].append(frame.payload);
    if (!frame.ends_answer()) return;
    read_text(stream.bodies[frame.stream]);
    stream.bodies.erase(frame.stream);
  });
}

void QuotaReports::read_frames(Bytes& frames) {
  const auto add = [this](auto reservations) {
    for (const uint64_t reservation : reservations) delivered_.insert(reservation);
  };
  while (take_frame(frames, [&](schema::ServerFrame::Reader frame) {
    if (frame.isQuotaAnswers()) add(frame.getQuotaAnswers().getReservations());
    if (frame.isGranted()) add(frame.getGranted().getReservations());
  })) {
  }
}

// Leaves the end, which may be the front of a field.
void QuotaReports::read_text(std::string& text) {
  const size_t whole = field.size() + id_digits;
  for (size_t at = 0; (at = text.find(field, at)) != std::string::npos; at += field.size()) {
    if (at + whole > text.size()) break;
    delivered_.insert(
        std::strtoull(text.substr(at + field.size(), id_digits).c_str(), nullptr, 16));
  }
  if (text.size() > whole) text.erase(0, text.size() - whole);
}

}  // namespace sluice::simulation
