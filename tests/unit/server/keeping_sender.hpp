// Keeps parcels for other nodes, in the order in which they were posted; tests answer them.
#pragma once

#include <vector>

#include "peer/quota_parcel.hpp"

namespace sluice::server {

class KeepingSender final : public peer::ParcelSender {
 public:
  void post(peer::QuotaParcel& parcel) noexcept override { parcels.push_back(&parcel); }

  std::vector<peer::QuotaParcel*> parcels;
};

}  // namespace sluice::server
