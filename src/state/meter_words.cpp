#include "state/meter_words.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "limiter/meter.hpp"
#include "state/byte_reader.hpp"

namespace sluice::state {

using api::LimitKind;
using limiter::Meter;
using limiter::MeterShape;
using limiter::Moment;
using limiter::RingMeter;
using limiter::Words;
using SubWindow = RingMeter::SubWindow;

namespace {

__extension__ using Wide = unsigned __int128;

// As stored; numbers are never reused.
enum class Layout : uint8_t { none = 0, window = 1, ring = 2, long_ring = 3, bucket = 4 };

constexpr int64_t calendar_period_ns_max = 32 * base::ns_per_day;
// Of a gcra's ring: more than all charges of two rings make, and so little that no sum overflows.
constexpr uint64_t ring_level_high_max = (uint64_t{1} << 58) - 1;

Layout layout_of(const MeterShape& shape) noexcept {
  switch (shape.kind) {
    case LimitKind::concurrency:
      return Layout::none;
    case LimitKind::fixed:
    case LimitKind::anchored_day:
    case LimitKind::calendar:
      return Layout::window;
    case LimitKind::sliding:
      return Layout::ring;
    case LimitKind::rolling_day:
      return Layout::long_ring;
    case LimitKind::gcra:
      break;
  }
  return Layout::bucket;
}

bool has_ring(Layout layout) noexcept {
  return layout != Layout::none && layout != Layout::window;
}

// ---- writing -----------------------------------------------------------------------------------

// Reads no more of the ring than it has to: in most subjects only the newest sub-window has usage,
// and the ring is memory that nobody has read lately.
void pack_ring(ByteWriter& writer, const RingMeter& ring, const MeterShape& shape) noexcept {
  std::array<SubWindow, limiter::rolling_day_places> found;
  uint32_t count = 0;
  uint64_t used_bits = 0;
  uint64_t open_bits = 0;
  uint64_t used_left = ring.used();
  for (uint32_t age = 0; used_left > 0 && age <= shape.ring_mask; ++age) {
    const SubWindow& at = ring.place(ring.newest() - age);
    if (at.used == 0) continue;
    used_bits |= uint64_t{1} << age;
    if (at.open > 0) open_bits |= uint64_t{1} << age;
    used_left -= at.used;
    found[count++] = at;
  }
  ASSERT(used_left == 0);
  writer.varint(static_cast<uint64_t>(ring.newest()));
  writer.varint(used_bits);
  writer.varint(open_bits);
  for (uint32_t at = 0; at < count; ++at) {
    writer.varint(found[at].used);
    if (found[at].open > 0) writer.varint(found[at].open);
  }
}

void pack_bucket(ByteWriter& writer, const uint64_t* words) noexcept {
  for (const uint8_t at : {Meter::level_at, Meter::ring_level_at}) {
    writer.varint(words[at]);
    writer.varint(words[at + 1]);
  }
  writer.varint(words[Meter::leaked_at]);
  writer.varint(words[RingMeter::newest_at] - words[Meter::changed_at]);
  writer.varint(words[Meter::changing_amount_at]);
  writer.varint(words[Meter::slow_amount_at]);
}

void pack_window(ByteWriter& writer, const uint64_t* words) noexcept {
  writer.varint(words[Meter::used_at]);
  writer.varint(words[Meter::open_at]);
  writer.varint(words[Meter::end_at]);
}

// ---- reading -----------------------------------------------------------------------------------

bool is_past_sub_window(uint64_t sub_window, const MeterShape& shape, const Moment& latest) {
  return Wide{sub_window} * static_cast<uint64_t>(shape.width_ns) <=
         static_cast<uint64_t>(latest.ns);
}

// Reads the sub-windows of a ring that is all zero, and their sums.
class RingReader {
 public:
  RingReader(ByteReader& reader, const MeterShape& shape, uint64_t* words, uint64_t* ring) noexcept
      : reader_(reader), shape_(shape), words_(words), ring_(shape, words, ring) {}

  bool read(const Moment& latest) noexcept {
    words_[RingMeter::newest_at] = reader_.varint();
    used_bits_ = reader_.varint();
    open_bits_ = reader_.varint();
    const uint32_t places = shape_.ring_mask + 1U;
    const bool is_wider = places < 64 && used_bits_ >> places != 0;
    if (is_wider || (open_bits_ & ~used_bits_) != 0) return false;
    if (!is_past_sub_window(words_[RingMeter::newest_at], shape_, latest)) return false;
    for (uint32_t age = 0; age < places; ++age) {
      if ((used_bits_ >> age & 1) != 0 && !read_sub_window(age)) return false;
    }
    return true;
  }

 private:
  bool read_sub_window(uint32_t age) noexcept {
    const bool is_open = (open_bits_ >> age & 1) != 0;
    const uint64_t used = reader_.varint();
    const uint64_t open = is_open ? reader_.varint() : 0;
    const uint64_t sum_max = shape_.kind == LimitKind::gcra ? UINT64_MAX : limits::amount_max;
    if (used == 0 || used > sum_max - words_[RingMeter::used_at]) return false;
    if (open > used || is_open != (open > 0)) return false;
    words_[RingMeter::used_at] += used;
    words_[RingMeter::open_at] += open;
    ring_.place(ring_.newest() - age) = {.used = used, .open = open};
    return true;
  }

  ByteReader& reader_;
  const MeterShape& shape_;
  uint64_t* words_;
  RingMeter ring_;
  uint64_t used_bits_ = 0;
  uint64_t open_bits_ = 0;
};

bool unpack_bucket(ByteReader& reader, const MeterShape& shape, const Moment& latest,
                   uint64_t* words) noexcept {
  for (const uint8_t at : {Meter::level_at, Meter::ring_level_at}) {
    words[at] = reader.varint();
    words[at + 1] = reader.varint();
  }
  words[Meter::leaked_at] = reader.varint();
  const uint64_t newest = words[RingMeter::newest_at];
  const uint64_t changed_ago = reader.varint();
  words[Meter::changed_at] = newest - changed_ago;
  words[Meter::changing_amount_at] = reader.varint();
  words[Meter::slow_amount_at] = reader.varint();
  const Wide level = (Wide{words[Meter::level_at + 1]} << 64) | words[Meter::level_at];
  return level <= Wide{limits::amount_max} * static_cast<uint64_t>(shape.period_ns) &&
         words[Meter::ring_level_at + 1] <= ring_level_high_max &&
         words[Meter::leaked_at] <= static_cast<uint64_t>(latest.ns) &&
         changed_ago <= newest + shape.ring_mask + 1 &&  // as begin() sets it
         words[Meter::changing_amount_at] <= limits::amount_max &&
         words[Meter::slow_amount_at] <= limits::amount_max;
}

bool unpack_window(ByteReader& reader, const MeterShape& shape, const Moment& latest,
                   uint64_t* words) noexcept {
  words[Meter::used_at] = reader.varint();
  words[Meter::open_at] = reader.varint();
  words[Meter::end_at] = reader.varint();
  const bool is_calendar = shape.kind == LimitKind::calendar;
  const auto end_max = static_cast<uint64_t>(is_calendar ? latest.wall_ns + calendar_period_ns_max
                                                         : latest.ns + shape.period_ns);
  // Usage without an end would never be forgotten.
  const bool may_have_usage = is_calendar || words[Meter::end_at] != 0;
  return words[Meter::used_at] <= (may_have_usage ? limits::amount_max : 0) &&
         words[Meter::open_at] <= words[Meter::used_at] && words[Meter::end_at] <= end_max;
}

}  // namespace

void pack_meters(ByteWriter& writer, std::span<const MeterShape> shapes,
                 const Words& words) noexcept {
  uint64_t since_before = 0;
  for (const MeterShape& shape : shapes) {
    const Layout layout = layout_of(shape);
    writer.word(static_cast<uint8_t>(layout));
    if (layout == Layout::none) continue;
    const uint64_t* const heads = words.heads + shape.head_word;
    // Most often the meters of all limits began with the same call.
    const uint64_t since = heads[Meter::since_at];
    writer.varint(zigzag(static_cast<int64_t>(since - since_before)));
    since_before = since;
    if (has_ring(layout)) {
      pack_ring(writer, RingMeter(shape, words), shape);
      if (layout == Layout::bucket) pack_bucket(writer, heads);
    } else {
      pack_window(writer, heads);
    }
  }
}

bool unpack_meters(std::span<const std::byte> bytes, std::span<const MeterShape> shapes,
                   const Moment& latest, const Words& words) noexcept {
  ByteReader reader(bytes);
  uint64_t since = 0;
  for (const MeterShape& shape : shapes) {
    const Layout layout = layout_of(shape);
    if (reader.word<uint8_t>() != static_cast<uint8_t>(layout)) return false;
    if (layout == Layout::none) continue;
    uint64_t* const heads = words.heads + shape.head_word;
    uint64_t* const ring = words.rings + shape.ring_word;
    std::fill_n(heads, limiter::head_words(shape), 0);
    std::fill_n(ring, limiter::ring_words(shape), 0);
    since += static_cast<uint64_t>(from_zigzag(reader.varint()));
    if (since > latest.order) return false;
    heads[Meter::since_at] = since;
    if (has_ring(layout)) {
      if (!RingReader(reader, shape, heads, ring).read(latest)) return false;
      if (layout != Layout::bucket) continue;
      if (!unpack_bucket(reader, shape, latest, heads)) return false;
    } else if (!unpack_window(reader, shape, latest, heads)) {
      return false;
    }
  }
  return !reader.is_damaged() && reader.left() == 0;
}

}  // namespace sluice::state
