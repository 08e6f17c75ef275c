#include "base/mapped_region.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/assert.hpp"

namespace sluice::base {
namespace {

constexpr size_t page_bytes = 4096;

constexpr size_t round_up(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

MappedRegion::MappedRegion(size_t bytes, std::string_view purpose) {
  if (bytes == 0) return;
  // Aligned to a large page by mapping more and unmapping the ends.
  const bool align_huge = bytes >= huge_page_bytes;
  size_ = round_up(bytes, align_huge ? huge_page_bytes : page_bytes);
  const size_t mapped_bytes = size_ + (align_huge ? huge_page_bytes : 0);
  void* mapped = ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;  // before the text is allocated
    throw std::system_error(error, std::generic_category(),
                            "cannot reserve " + std::to_string(size_ >> 20) +
                                " MiB of address space for the " + std::string(purpose));
  }
  auto* begin = static_cast<std::byte*>(mapped);
  if (align_huge) {
    const auto address = reinterpret_cast<uintptr_t>(begin);
    const size_t head = round_up(address, huge_page_bytes) - address;
    if (head > 0) ::munmap(begin, head);
    if (head < huge_page_bytes) ::munmap(begin + head + size_, huge_page_bytes - head);
    begin += head;
  }
  data_ = begin;
}

MappedRegion::~MappedRegion() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

MappedRegion::MappedRegion(MappedRegion&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedRegion& MappedRegion::operator=(MappedRegion&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedRegion::advise_huge() noexcept {
  if (data_ != nullptr) ::madvise(data_, size_, MADV_HUGEPAGE);
}

void MappedRegion::discard(size_t offset, size_t bytes) noexcept {
  ASSERT(offset + bytes <= size_);
  const size_t begin = round_up(offset, page_bytes);
  const size_t end = (offset + bytes) / page_bytes * page_bytes;
  if (begin < end) ::madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

}  // namespace sluice::base
