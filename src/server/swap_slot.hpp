// Hands new values from one thread, the maker, to another, the user, which uses one at a time, and
// hands replaced values back, so that the maker alone makes and destroys them: both take long when
// values are large.
// Flow:   maker: put() -> user: take() -> the replaced value waits -> maker: put() or tidy().
// Shape:  put() also allocates the memory in which the replaced value returns; a value that the
//         user has not taken yet is replaced. At most as many values wait for the maker as the user
//         has taken since the maker's last call.
// Lives:  one maker thread and one user thread; both are done with it before it ends.
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

  // Called by the maker.
  void put(std::unique_ptr<Value> value) {
    tidy();
    delete new_.exchange(new Parcel{.value = std::move(value)});
  }
  void tidy() noexcept {
    for (Parcel* parcel = replaced_.exchange(nullptr); parcel != nullptr;) {
      delete std::exchange(parcel, parcel->next);
    }
  }

  // Called by the user: whether there is a value, and taking it. replace(unique_ptr) returns the
  // value that it has replaced.
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
