"""GET /openapi.json is true: the server answers the described requests, and refuses others. Method:
schemathesis sends requests that the description allows, and others, from fixed seeds."""

import os
import pathlib
import subprocess
import sys

import pytest

from conftest import ONE_ENGINE
from server_process import clean_environment

CONFIG = pathlib.Path(__file__).with_name("schemathesis.toml")
EXAMPLES = os.environ.get("SLUICEGATE_OPENAPI_EXAMPLES", "10")
RUN_SECONDS_MAX = 400  # a tenth of it on an idle machine

# The description does not depend on the engine, and every run takes long.
@pytest.mark.parametrize("engine", ONE_ENGINE, indirect=True)
@pytest.mark.timeout(RUN_SECONDS_MAX + 20)
def test_the_server_matches_its_description(start_server, tmp_path):
    server = start_server("--max-wait-millis", "20")
    address = f"http://{server.host}:{server.port}/openapi.json"
    run = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "--config-file", CONFIG, "run", address,
         "--checks", "all", "--phases", "examples,coverage,fuzzing", "--max-examples", EXAMPLES,
         "--seed", "1", "--continue-on-failure", "--no-color", "--warnings", "off"],
        cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False,
        timeout=RUN_SECONDS_MAX)
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-2_000:]
    assert "23 / 23" in run.stdout or "Tested: 23" in run.stdout, run.stdout[-2_000:]
