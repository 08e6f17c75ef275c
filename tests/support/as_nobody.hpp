// Root may read and write everything; while this lives, the process may do what nobody may.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

namespace sluice::test {

class AsNobody {
 public:
  AsNobody() {
    if (!was_root_) return;
    EXPECT_EQ(::seteuid(nobody), 0);
  }
  ~AsNobody() {
    if (!was_root_) return;
    EXPECT_EQ(::seteuid(0), 0);
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  static constexpr uid_t nobody = 65'534;
  const bool was_root_ = ::geteuid() == 0;
};

}  // namespace sluice::test
