// Goal: a core that does not exist is refused. Method: pin_to_cpu() by hand; servers of our own are
// in tests/integration/command_line_test.py, because they run the shipped program.
#include "load/own_server.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace sluice::load {
namespace {

TEST(PinToCpu, refuses_a_core_that_does_not_exist) {
  EXPECT_THROW(pin_to_cpu(100'000), std::runtime_error);
  EXPECT_THROW(pin_to_cpu(-1), std::runtime_error);
  EXPECT_THROW(pin_to_cpu(1'023), std::runtime_error) << "the kernel refuses it";
}

}  // namespace
}  // namespace sluice::load
