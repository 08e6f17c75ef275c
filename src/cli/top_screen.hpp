// The terminal of `sluicegate top`, by ncurses: the constructor takes it over, the destructor
// restores it.
// Flow:   TopView::lines() -> draw(); key() waits for a key.
// Errors: std::runtime_error when the terminal is not known.
// Lives:  one at a time. Signals that end the process are for the caller to turn into an end of its
//         loop (SignalWatch); Ctrl-Z and changes of size are ncurses' own.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "cli/top_view.hpp"

namespace sluice::cli {

// From its construction on notes SIGINT, SIGTERM, SIGHUP and SIGQUIT instead of dying of them.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  static bool came() noexcept;
};

class TopScreen {
 public:
  static constexpr int no_key = -1;

  TopScreen();
  ~TopScreen();
  TopScreen(const TopScreen&) = delete;
  TopScreen& operator=(const TopScreen&) = delete;

  size_t columns() const;
  size_t rows() const;
  void draw(const std::vector<Line>& lines);
  // The key typed within `wait`, or a change of size; no_key: none.
  int key(std::chrono::milliseconds wait);

 private:
  void* screen_;
};

}  // namespace sluice::cli
