"""HTTP/2 by the letter, RFC 7540 and 7541. Method: h2spec, built by tools/setup from the Go modules
beside this file, sends each frame that a server must take or refuse, on both kernel interfaces."""

import os
import pathlib
import subprocess
import xml.etree.ElementTree

import pytest

from server_process import ServerProcess

PROGRAM = pathlib.Path(__file__).parents[3] / ".venv" / "bin" / "h2spec"  # tools/setup makes it
# A step takes milliseconds. If the server stayed silent, its own time-outs would end the connection
# later, which h2spec takes for a refusal.
STEP_SECONDS_MAX = 8
RUN_SECONDS_MAX = 300
CASES_MIN = 145
SKIPPED_MAX = 1

pytestmark = pytest.mark.timeout(RUN_SECONDS_MAX + 60)


def report_of(server, path):
    """Each case's name -> None, or the name of its outcome."""
    run = subprocess.run(
        [PROGRAM, "--strict", "--host", server.host, "--port", str(server.port),
         "--timeout", str(STEP_SECONDS_MAX), "--junit-report", path],
        capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False)
    assert path.exists(), run.stdout[-5_000:] + run.stderr[-1_000:]
    cases = xml.etree.ElementTree.parse(path).getroot().iter("testcase")
    report = {f"{case.get('package')} {case.get('classname')}": next((part.tag for part in case),
                                                                    None) for case in cases}
    failed = [name for name, outcome in report.items() if outcome not in (None, "skipped")]
    assert failed == [] and run.returncode == 0, "\n".join([*failed, run.stdout[-10_000:]])
    return report


@pytest.mark.parametrize("io", ["uring", "epoll"])
def test_every_case_of_h2spec(io, tmp_path):
    if io == "uring" and os.environ.get("SLUICEGATE_NO_URING") == "1":
        pytest.skip("SLUICEGATE_NO_URING=1")
    server = ServerProcess(io, 1)
    try:
        report = report_of(server, tmp_path / "report.xml")
        assert server.is_running()
    finally:
        code = server.stop()
    assert code == 0 and server.errors == [], server.output()
    assert list(report.values()).count("skipped") <= SKIPPED_MAX, report
    assert len(report) >= CASES_MIN
