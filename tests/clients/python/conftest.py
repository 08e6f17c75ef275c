"""Shared by all tests of the Python client."""

import os

import hypothesis
from real_server import ENGINES as ENGINES  # the fleets of the integration tests have them

# A slow moment of the machine is no failure, and runs are independent of each other.
hypothesis.settings.register_profile("suite", deadline=None, database=None,
                                     suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("suite")

# LiteLLM, where a test imports it, asks no network for its prices.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
