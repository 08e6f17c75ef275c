// Gives another thread a new value of which it uses one at a time, and takes the replaced ones
// back, so that it neither makes nor ends any: both take long when values are large.
// Flow:   maker: put() -> user: take() -> what was replaced waits -> maker: put() or tidy().
// Shape:  what is put comes with the memory that it goes back in; what nobody has taken yet is
//         passed over. At most those wait that were taken since the maker was last here.
// Lives:  one thread makes, one uses; both are done with it before it ends.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace sluice::server {

template <typename Value>
class SwapSlot {
 public:
  SwapSlot() = default;
  ~SwapSlot() {
    delete new_.load();
    tidy();
  }
  SwapSlot(const SwapSlot&) = delete;
  SwapSlot& operator=(const SwapSlot&) = delete;

  // The maker's.
  void put(std::unique_ptr<Value> value) {
    tidy();
    delete new_.exchange(new Parcel{.value = std::move(value)});
  }
  void tidy() noexcept {
    for (Parcel* parcel = replaced_.exchange(nullptr); parcel != nullptr;) {
      delete std::exchange(parcel, parcel->next);
    }
  }

  // The user's: whether there is something to take, and taking it. replace(unique_ptr) returns what
  // it has replaced.
  bool full() const noexcept { return new_.load(std::memory_order_relaxed) != nullptr; }
  template <typename Replace>
  void take(Replace replace) noexcept {
    Parcel* const parcel = new_.exchange(nullptr);
    if (parcel == nullptr) return;
    parcel->value = replace(std::move(parcel->value));
    parcel->next = replaced_.load();
    while (!replaced_.compare_exchange_weak(parcel->next, parcel)) continue;
  }

 private:
  struct Parcel {
    std::unique_ptr<Value> value;
    Parcel* next = nullptr;
  };

  std::atomic<Parcel*> new_{nullptr};
  std::atomic<Parcel*> replaced_{nullptr};
};

}  // namespace sluice::server
