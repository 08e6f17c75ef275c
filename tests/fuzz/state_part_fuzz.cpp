// Any bytes as a part of a state: as they are, and with mark, format, length and checksum made
// right. They are refused, or every record is the same when it is written again, and meters go on
// with the words that were read.
#include <cstddef>
#include <cstdint>
#include <span>

#include "support/state_parts.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  sluice::test::PartCheck check;
  check.run(bytes);
  check.run(sluice::test::sealed(bytes));
  return 0;
}
