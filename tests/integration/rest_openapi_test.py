"""GET /openapi.json is true: the server answers the described requests, and refuses others. Method:
schemathesis sends requests that the description allows, and others, from fixed seeds. It does not
speak HTTP/2: a relay does that for it."""

import contextlib
import os
import pathlib
import subprocess
import sys

import pytest

from conftest import ONE_ENGINE
from http1_over_http2 import relay
from server_process import clean_environment

CONFIG = pathlib.Path(__file__).with_name("schemathesis.toml")
EXAMPLES = os.environ.get("SLUICEGATE_OPENAPI_EXAMPLES", "10")
RUN_SECONDS_MAX = 400  # a tenth of it on an idle machine

OPERATIONS_COUNT = 26


def check_description(address, folder):
    run = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "--config-file", CONFIG, "run", address,
         "--checks", "all", "--phases", "examples,coverage,fuzzing", "--max-examples", EXAMPLES,
         "--seed", "1", "--continue-on-failure", "--no-color", "--warnings", "off"],
        cwd=folder, env=clean_environment(), capture_output=True, text=True, check=False,
        timeout=RUN_SECONDS_MAX)
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-2_000:]
    tested = f"{OPERATIONS_COUNT} / {OPERATIONS_COUNT}", f"Tested: {OPERATIONS_COUNT}"
    assert any(text in run.stdout for text in tested), run.stdout[-2_000:]


# The description does not depend on the engine, and every run takes long.
@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("engine", ONE_ENGINE, indirect=True)
@pytest.mark.timeout(RUN_SECONDS_MAX + 20)
def test_the_server_matches_its_description(start_server, tmp_path, version):
    server = start_server("--max-wait-millis", "20")
    with relay(server) if version == "2" else contextlib.nullcontext() as relaying:
        port = relaying.port if relaying else server.port
        check_description(f"http://{server.host}:{port}/openapi.json", tmp_path)
        assert not relaying or relaying.answers_count > OPERATIONS_COUNT * int(EXAMPLES)
