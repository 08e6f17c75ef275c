#include "quota_reports.hpp"

#include <cstdlib>

namespace sluice::simulation {
namespace {

constexpr std::string_view field = "\"reservation\":\"";
constexpr size_t id_digits = 16;

}  // namespace

// A REST stream begins with `H`; the first byte of a frame is a small number of segments.
void QuotaReports::on_taken(uint32_t link, std::span<const std::byte> bytes) {
  Stream& stream = streams_[link];
  const bool is_text = !stream.text.empty() ||
                       (stream.frames.empty() && bytes.front() == static_cast<std::byte>('H'));
  if (is_text) {
    stream.text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    read_text(stream.text);
  } else {
    stream.frames.insert(stream.frames.end(), bytes.begin(), bytes.end());
    read_frames(stream.frames);
  }
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

// The rest is never empty, so that the stream is still recognized as text.
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
