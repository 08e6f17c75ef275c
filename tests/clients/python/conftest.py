"""What all tests of the Python client share."""

import hypothesis

# A slow moment of the machine is no failure, and nothing is remembered from run to run.
hypothesis.settings.register_profile("suite", deadline=None, database=None)
hypothesis.settings.load_profile("suite")
