#include "cli/top_screen.hpp"

#define NCURSES_NOMACROS
#include <ncurses.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace sluice::cli {
namespace {

constexpr std::array ending_signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

volatile std::sig_atomic_t signal_came = 0;

void note_signal(int) {
  signal_came = 1;
}

chtype attribute_of(Line::Style style) {
  switch (style) {
    case Line::Style::title:
      return A_BOLD;
    case Line::Style::header:
      return A_REVERSE;
    case Line::Style::warning:
      return A_BOLD | A_REVERSE;
    case Line::Style::plain:
      break;
  }
  return A_NORMAL;
}

}  // namespace

SignalWatch::SignalWatch() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  for (const int signal : ending_signals) sigaction(signal, &action, nullptr);
}

SignalWatch::~SignalWatch() {
  for (const int signal : ending_signals) std::signal(signal, SIG_DFL);
}

bool SignalWatch::came() noexcept {
  return signal_came != 0;
}

TopScreen::TopScreen() : screen_(newterm(nullptr, stdout, stdin)) {
  if (screen_ == nullptr) {
    const char* name = std::getenv("TERM");
    throw std::runtime_error(std::string{"the terminal '"} + (name != nullptr ? name : "") +
                             "' is not known: set TERM, or use --once");
  }
  cbreak();
  noecho();
  keypad(stdscr, TRUE);
  curs_set(0);
}

TopScreen::~TopScreen() {
  endwin();
  delscreen(static_cast<SCREEN*>(screen_));
}

size_t TopScreen::columns() const {
  return static_cast<size_t>(std::max(getmaxx(stdscr), 1));
}
size_t TopScreen::rows() const {
  return static_cast<size_t>(std::max(getmaxy(stdscr), 1));
}

void TopScreen::draw(const std::vector<Line>& lines) {
  erase();
  for (size_t row = 0; row < lines.size(); ++row) {
    attrset(static_cast<int>(attribute_of(lines[row].style)));
    mvaddstr(static_cast<int>(row), 0, lines[row].text.c_str());
  }
  attrset(A_NORMAL);
  refresh();
}

int TopScreen::key(std::chrono::milliseconds wait) {
  wtimeout(stdscr, static_cast<int>(wait.count()));
  const int typed = getch();
  return typed == ERR ? no_key : typed;
}

}  // namespace sluice::cli
