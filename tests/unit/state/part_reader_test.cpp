// Goal: a reader returns the records of a part in their order, and finds those that a bug wrote.
// Method: parts whose checksum is right, and whose records or counts are not.
#include "state/part_reader.hpp"

#include <gtest/gtest.h>

#include "unit/state/bytes.hpp"
#include "unit/state/samples.hpp"

namespace sluice::state {
namespace {

Bytes part_of(const Bytes& records, uint32_t count) {
  PartHeader header = sample_header();
  header.records_bytes = static_cast<uint32_t>(records.size());
  header.records_count = count;
  Bytes part(PartHeader::bytes);
  write_header(std::span<std::byte, PartHeader::bytes>(part.data(), part.size()), header,
               records_hash(records));
  part.insert(part.end(), records.begin(), records.end());
  return part;
}

Bytes two_records() {
  return written([](ByteWriter& writer) {
    write_record(writer, open_reservation());
    write_record(writer, GoneReservation{.id = 5});
  });
}

TEST(PartReader, returns_every_record_and_then_none) {
  const Bytes part = part_of(two_records(), 2);
  PartReader reader = PartReader::open(part).value();
  EXPECT_EQ(reader.header().records_count, 2U);
  EXPECT_EQ(std::get<ReservationRecord>(reader.next().value()), open_reservation());
  EXPECT_EQ(std::get<GoneReservation>(reader.next().value()).id, 5U);
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.damage());
}

TEST(PartReader, refuses_what_is_not_a_part) {
  EXPECT_EQ(PartReader::open({}).error(), PartDamage::not_a_part);
  Bytes part = part_of(two_records(), 2);
  part.back() ^= std::byte{1};
  EXPECT_EQ(PartReader::open(part).error(), PartDamage::checksum);
}

TEST(PartReader, finds_fewer_or_more_records_than_the_header_says) {
  for (const uint32_t count : {1U, 3U}) {
    const Bytes part = part_of(two_records(), count);
    PartReader reader = PartReader::open(part).value();
    while (reader.next()) {
    }
    EXPECT_EQ(reader.damage(), PartDamage::record) << count;
    EXPECT_FALSE(reader.next());
  }
}

TEST(PartReader, ends_at_a_record_that_cannot_be) {
  const Bytes part = part_of(written([](ByteWriter& writer) {
                               write_record(writer, GoneReservation{.id = 0});
                               write_record(writer, GoneReservation{.id = 5});
                             }),
                             2);
  PartReader reader = PartReader::open(part).value();
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(reader.damage(), PartDamage::record);
  EXPECT_FALSE(reader.next());
}

TEST(PartReader, finds_a_time_that_is_later_than_the_part) {
  const Bytes part = part_of(written([](ByteWriter& writer) {
                               ReservationRecord reservation = open_reservation();
                               reservation.charged_ns = sample_ns + 1;
                               write_record(writer, reservation);
                             }),
                             1);
  PartReader reader = PartReader::open(part).value();
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(reader.damage(), PartDamage::record);
}

}  // namespace
}  // namespace sluice::state
