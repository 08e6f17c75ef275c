#include "support/allocation_guard.hpp"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

thread_local uint64_t allocations = 0;
thread_local int forbidden = 0;

void* allocate(size_t bytes, size_t alignment) {
  ++allocations;
  if (forbidden > 0) {
    forbidden = 0;  // the message below may allocate
    std::fprintf(stderr, "operator new(%zu) where nothing may be allocated\n", bytes);
    std::abort();
  }
  if (bytes == 0) bytes = 1;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = alignment <= alignof(std::max_align_t) ? std::malloc(bytes)
                                                        : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) {
  return allocate(bytes, 1);
}
void* operator new[](size_t bytes) {
  return allocate(bytes, 1);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace sluice::support {

uint64_t allocations_of_thread() noexcept {
  return allocations;
}

ForbidAllocation::ForbidAllocation() noexcept {
  ++forbidden;
}
ForbidAllocation::~ForbidAllocation() {
  --forbidden;
}

}  // namespace sluice::support
