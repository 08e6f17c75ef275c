// How long a back end sleeps where the kernel refuses to wait: without it the worker would call
// at once, and again, as long as the refusal lasts. Short at first: a lack of memory may soon end.
// Units:  a pause is doubled with each refusal that follows another.
// Lives:  one for each back end; sleeps on the thread that polls.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace sluice::io {

class RefusalPause {
 public:
  void sleep() noexcept {
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(2 * pause_, longest);
  }

  void end() noexcept { pause_ = shortest; }

 private:
  static constexpr std::chrono::milliseconds shortest{1};
  static constexpr std::chrono::milliseconds longest{100};

  std::chrono::milliseconds pause_ = shortest;
};

}  // namespace sluice::io
