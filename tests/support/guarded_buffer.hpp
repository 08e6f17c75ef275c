// Memory that ends at a page without access: reading one byte too far is a fault.
// Shape:  [ ... bytes | PROT_NONE page ]; the bytes end exactly where the page begins.
// Units:  bytes.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <span>

namespace sluice::test {

class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t bytes_max)
      : page_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        usable_bytes_((bytes_max / page_bytes_ + 1) * page_bytes_) {
    void* memory = mmap(nullptr, usable_bytes_ + page_bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    memory_ = static_cast<std::byte*>(memory);
    if (mprotect(memory_ + usable_bytes_, page_bytes_, PROT_NONE) != 0) std::abort();
  }
  ~GuardedBuffer() { munmap(memory_, usable_bytes_ + page_bytes_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  // The last `bytes_count` bytes before the guard page.
  std::span<std::byte> last(size_t bytes_count) noexcept {
    if (bytes_count > usable_bytes_) std::abort();
    return {memory_ + usable_bytes_ - bytes_count, bytes_count};
  }

  // A copy of `bytes` that ends at the guard page; valid until the next call.
  std::span<const std::byte> place(std::span<const std::byte> bytes) noexcept {
    const std::span<std::byte> copy = last(bytes.size());
    if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
    return copy;
  }

 private:
  size_t page_bytes_;
  size_t usable_bytes_;
  std::byte* memory_;
};

}  // namespace sluice::test
