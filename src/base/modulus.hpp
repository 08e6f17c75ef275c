// The rest of a division by a number that stays the same, without the division.
// Source: Lemire, Kaser and Kurz, "Faster remainder by direct computation" (2019): exact for all
//         numbers of 32 bits.
#pragma once

#include <cstdint>

namespace sluice::base {

class Modulus {
 public:
  constexpr explicit Modulus(uint32_t divisor) noexcept
      : divisor_(divisor), inverse_(UINT64_MAX / divisor + 1) {}

  constexpr uint32_t of(uint32_t number) const noexcept {
    const uint64_t fraction = inverse_ * number;
    return static_cast<uint32_t>((Wide{fraction} * divisor_) >> 64);
  }

 private:
  __extension__ using Wide = unsigned __int128;

  uint32_t divisor_;
  uint64_t inverse_;
};

}  // namespace sluice::base
