#include "config/config.hpp"

namespace sluice::config {

std::string installed_profiles() {
  return SLUICE_PROFILES_FOLDER;
}

}  // namespace sluice::config
