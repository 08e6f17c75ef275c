#include "wire/http_writer.hpp"

#include <array>
#include <chrono>

#include "base/assert.hpp"
#include "base/time.hpp"
#include "text/number.hpp"

namespace sluice::wire {
namespace {

struct DateText {
  int64_t second = -1;
  std::array<std::byte, 29> text{};
};

}  // namespace

void HttpWriter::decimal(int64_t value) noexcept {
  text::DigitBuffer buffer;
  text(text::digits(value, buffer));
}

void HttpWriter::decimal_unsigned(uint64_t value) noexcept {
  text::DigitBuffer buffer;
  text(text::digits(value, buffer));
}

void HttpWriter::hexadecimal(uint64_t value) noexcept {
  text::DigitBuffer buffer;
  text(text::hex_digits(value, buffer));
}

void HttpWriter::date(int64_t wall_ns) noexcept {
  constinit thread_local DateText last;  // the answers of a second share it
  const int64_t second = wall_ns / base::ns_per_s;
  if (second != last.second) {
    HttpWriter{last.text}.write_date(second);
    last.second = second;
  }
  text({reinterpret_cast<const char*>(last.text.data()), last.text.size()});
}

void HttpWriter::write_date(int64_t second) noexcept {
  static constexpr std::string_view weekdays = "SunMonTueWedThuFriSat";
  static constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  using namespace std::chrono;
  const sys_seconds now{seconds{second}};
  const sys_days day = floor<days>(now);
  const year_month_day date{day};
  const hh_mm_ss<seconds> time{now - day};
  text(weekdays.substr(3 * weekday{day}.c_encoding(), 3));
  text(", ");
  two_digits(unsigned{date.day()});
  text(" ");
  text(months.substr(3 * (unsigned{date.month()} - 1), 3));
  text(" ");
  four_digits(static_cast<uint32_t>(int{date.year()}));
  text(" ");
  two_digits(static_cast<uint32_t>(time.hours().count()));
  text(":");
  two_digits(static_cast<uint32_t>(time.minutes().count()));
  text(":");
  two_digits(static_cast<uint32_t>(time.seconds().count()));
  text(" GMT");
}

void HttpWriter::two_digits(uint32_t value) noexcept {
  ASSERT(value < 100);
  const char digits[2] = {static_cast<char>('0' + value / 10), static_cast<char>('0' + value % 10)};
  text({digits, 2});
}

void HttpWriter::four_digits(uint32_t value) noexcept {
  two_digits(value / 100);
  two_digits(value % 100);
}

void HttpWriter::status(uint16_t value) noexcept {
  ASSERT(value < 1'000);
  const char digits[3] = {static_cast<char>('0' + value / 100),
                          static_cast<char>('0' + value / 10 % 10),
                          static_cast<char>('0' + value % 10)};
  text({digits, 3});
}

void HttpWriter::append_tail(size_t tail_start, size_t tail_bytes) noexcept {
  ASSERT(size_bytes_ <= tail_start);
  ASSERT(tail_start <= out_.size());
  ASSERT(tail_bytes <= out_.size() - tail_start);
  std::memmove(out_.data() + size_bytes_, out_.data() + tail_start, tail_bytes);
  size_bytes_ += tail_bytes;
}

}  // namespace sluice::wire
