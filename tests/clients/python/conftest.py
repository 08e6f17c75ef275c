"""Shared by all tests of the Python client."""

import hypothesis
from real_server import ENGINES as ENGINES  # the fleets of the integration tests have them

# A slow moment of the machine is no failure, and runs are independent of each other.
hypothesis.settings.register_profile("suite", deadline=None, database=None,
                                     suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("suite")
