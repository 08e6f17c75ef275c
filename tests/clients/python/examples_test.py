"""The examples do what they describe, against the real server.

Method: runs each as a user would, and compares its output with what the limits allow.
"""

import os
import pathlib
import re
import runpy
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
import starlette.testclient
from real_server import free_port
from server_process import ServerProcess, in_some_try

import sluicegate

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "clients" / "python" / "examples"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(pathlib.Path(sluicegate.__file__).parents[1])}


@pytest.fixture
def server(request):
    """With windows of two seconds, or as the test chooses."""
    server = ServerProcess("epoll", 1, "--window-millis", str(getattr(request, "param", 2_000)))
    yield server
    assert server.stop() == 0 and server.errors == [], server.output()


def command(name, server, *arguments):
    return [sys.executable, str(EXAMPLES / f"{name}.py"), f"127.0.0.1:{server.native_port}",
            *arguments]


def run(name, server, *arguments):
    done = subprocess.run(command(name, server, *arguments), env=ENVIRONMENT, timeout=60,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_has_a_test():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "guard_endpoint", "wait_in_queue", "paced_job", "async_workers", "plot_throughput",
        "guard_model", "share_printer", "limit_function", "web_fastapi", "web_starlette",
        "web_flask", "web_django", "limit_flask", "limit_slowapi", "limit_tasks", "limit_litellm"}


def test_guard_endpoint(server):
    example = subprocess.Popen(command("guard_endpoint", server, "--port", "0"), env=ENVIRONMENT,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = re.search(r"port (\d+)", example.stdout.readline())[1]
        answers = [get(f"http://127.0.0.1:{port}/?user=ann") for _ in range(6)]
        # A window may end in between; then there are six.
        assert [status for status, _ in answers[:5]] == [200] * 5
        if answers[5][0] != 200:
            assert answers[5] == (429, "1") or answers[5] == (429, "2")
        assert get(f"http://127.0.0.1:{port}/?user=bob")[0] == 200
    finally:
        example.kill()
        example.wait()
        example.stdout.close()


@pytest.mark.parametrize("server", [3_600_000], indirect=True)
def test_limit_flask(server):
    example = subprocess.Popen(command("limit_flask", server, "--port", "0"), env=ENVIRONMENT,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = re.search(r"port (\d+)", example.stdout.readline())[1]

        def six_in_a_minute():
            with sluicegate.Client(f"127.0.0.1:{server.native_port}") as client:
                for usage in client.subjects():
                    client.reset(usage.subject)
            began = time.monotonic()
            answers = [get(f"http://127.0.0.1:{port}/") for _ in range(6)]
            if time.monotonic() - began > 50:
                return False  # the first may have left the window
            assert [status for status, _ in answers] == [200] * 5 + [429]
            return 0 < int(answers[5][1]) <= 65
        in_some_try(six_in_a_minute, "six requests within a minute", tries=3)
    finally:
        example.kill()
        example.wait()
        example.stdout.close()


@pytest.mark.parametrize("server", [3_600_000], indirect=True)
def test_limit_slowapi(server, monkeypatch):
    monkeypatch.setenv("SLUICEGATE", f"127.0.0.1:{server.native_port}")
    app = runpy.run_path(str(EXAMPLES / "limit_slowapi.py"))["make_app"]()
    client = starlette.testclient.TestClient(app)
    # The window of a new key begins with its first request.
    assert [client.get("/").status_code for _ in range(6)] == [200] * 5 + [429]


def test_limit_tasks(server):
    assert run("limit_tasks", server).strip() == "approved: 10, denied: 10, left: 0"


def test_limit_litellm(server):
    out = run("limit_litellm", server, "--mock", "be kind to yourself", "--calls", "30",
              "--tokens", "900", "--period", "0.4")
    answers, tokens = map(int, re.search(r"answers: (\d+), tokens: (\d+)", out).groups())
    assert answers == 30 and tokens > 30 * 20 and "denied" not in out, out
    assert "reserved and never settled: 0" in out


def get(url):
    """Status and Retry-After."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, None
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Retry-After"]


@pytest.mark.parametrize("server", [500], indirect=True)  # a visitor waits for up to four windows
def test_wait_in_queue(server):
    out = run("wait_in_queue", server)
    assert len(re.findall(r"visitor \d: approved", out)) >= 9, out
    assert len(out.splitlines()) == 10
    assert "visitor 9: gave up" in out or "visitor 9: approved" in out


def test_paced_job(server):
    out = run("paced_job", server, "--items", "100", "--tenants", "2", "--limit", "30")
    done = [int(count) for count in re.findall(r"(\d+) done", out)]
    assert sum(done) == 100 and max(done) <= 60 and out.rstrip().endswith(" 0 left"), out


def test_async_workers(server):
    out = run("async_workers", server, "--workers", "500", "--limit", "600", "--asks", "2")
    did = int(re.search(r"did it: (\d+)", out)[1])
    denied = re.search(r"denied: (\d+)", out)
    assert did >= 600 and did + (int(denied[1]) if denied else 0) == 1_000, out


def check_the_books(out, streams):
    """They agree, and each stream ended in one of the four ways."""
    assert out.endswith("the books agree\n"), out
    ways = ("complete", "broken", "denied", "left by their callers")
    ends = [int(re.search(rf"(\d+) {way}", out)[1]) for way in ways]
    assert sum(ends) == streams and min(ends) > 0, out


def test_guard_model(server):
    """Twice: the books of a run are those of its own calls."""
    for _ in range(2):
        out = run("guard_model", server, "--streams", "1000")
        check_the_books(out, 1_000)
        assert "recorded=0, lost=0)" in out


@pytest.mark.parametrize("lag_s", [0, 1])
def test_guard_model_with_a_server_that_is_killed_while_all_streams_are_under_way(tmp_path, lag_s):
    """With no time for a commit, and with some: then the server still has the reservations."""
    port = free_port()
    flags = ("--state", str(tmp_path / "state"), "--state-sync-millis", "20")
    server = ServerProcess("epoll", 2, *flags, native_port=port)
    example = subprocess.Popen(command("guard_model", server, "--hold"), env=ENVIRONMENT,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        line = example.stdout.readline()
        assert re.fullmatch(r"\d+ streams are under way\n", line)
        time.sleep(lag_s)
        server.kill()
        example.stdin.write("\n")
        example.stdin.flush()
        time.sleep(0.5)  # some streams end meanwhile, by a failure or because their callers leave
        server = ServerProcess("epoll", 2, *flags, native_port=port)
        out, errors = example.communicate(timeout=60)
        assert example.returncode == 0, line + out + errors
        check_the_books(out, 1_000)
        counts = re.search(r"settled=(\d+), recorded=(\d+), lost=0", out)
        assert counts and int(counts[1]) + int(counts[2]) > 0, out
    finally:
        example.kill()
        example.wait()
        server.kill()


def test_share_printer(server):
    def all_hold_it():
        out = run("share_printer", server)
        held, lost = (len(re.findall(rf"person \d: {state}", out))
                      for state in ("held it all the time", "lost the slot"))
        assert held + lost == 10 and "0 of 2 slots are taken now" in out, out
        if lost:
            return False  # a holder was paused for the lifetime of half a second
        assert "at most 2 at a time" in out
        return True
    in_some_try(all_hold_it, "every lease is renewed in time", tries=5)


def test_limit_function(server):
    out = run("limit_function", server).splitlines()
    assert out[:3] == [f"to ann: reminder {number}" for number in range(3)]
    # Decided in the first minute, unless the machine stood still.
    assert re.fullmatch(r"3 a minute are enough: later, in [\d.]+ s", out[3]), out


# ---- web frameworks ------------------------------------------------------------------------------

# A slow machine may need longer for a decision than the default.
PATIENT = """
from sluicegate._web import WebLimit
WebLimit.__init__.__kwdefaults__["timeout"] = 30
"""
STARLETTE = """
from starlette.testclient import TestClient
client = TestClient(example.app)
client.__enter__()
def get(path, **headers):
    return client.get(path, headers=headers).status_code
"""
FLASK = """
client = example.app.test_client()
def get(path, **headers):
    return client.get(path, headers=headers).status_code
"""
DJANGO = """
import django, django.test
django.setup()
client = django.test.Client()
def get(path, **headers):
    return client.get(path, headers=headers).status_code
"""


def statuses(name, server, client, requests):
    """Those of an application of examples/, asked by the test client of its framework."""
    program = (f"import sys\nsys.path.insert(0, {str(EXAMPLES)!r})\n{PATIENT}\n"
               f"import {name} as example\n{client}\nprint(*[{requests}])\n")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], timeout=60, capture_output=True, text=True,
        env=ENVIRONMENT | {"SLUICEGATE_ADDRESS": f"127.0.0.1:{server.native_port}"}, check=False)
    assert done.returncode == 0, done.stderr
    return [int(status) for status in done.stdout.split()]


def test_web_fastapi(server):
    assert statuses("web_fastapi", server, STARLETTE, "get('/search') for _ in range(6)") == [
        200, 200, 200, 200, 200, 429]
    assert statuses("web_fastapi", server, STARLETTE, "get('/report') for _ in range(3)") == [
        200, 200, 429]
    assert statuses("web_fastapi", server, STARLETTE, "get('/healthz') for _ in range(9)") == (
        [200] * 9)


def test_web_starlette(server):
    # Ten seconds may end in between: then the second hundred begins.
    found = statuses("web_starlette", server, STARLETTE,
                     "get('/search', **{'X-Api-Key': '17'}) for _ in range(201)")
    assert found[:100] == [200] * 100 and set(found) == {200, 429}
    assert statuses("web_starlette", server, STARLETTE, "get('/search'), get('/healthz')") == [
        200, 200]


def test_web_flask(server):
    asked = "get('/export', **{'X-Forwarded-For': forwarded}) for forwarded in ['1.1.1.1'] * 10"
    assert statuses("web_flask", server, FLASK, asked) == [200] * 10
    asked = "get('/search', **{'X-Forwarded-For': f}) for f in ('forged, 1.1.1.1', '2.2.2.2')"
    assert statuses("web_flask", server, FLASK, asked) == [429, 200]
    assert statuses("web_flask", server, FLASK, "get('/healthz') for _ in range(3)") == [200] * 3


def test_web_django(server):
    assert statuses("web_django", server, DJANGO,
                    "get('/search', **{'X-User': 'ann'}) for _ in range(4)") == [
        200, 200, 200, 429]
    assert statuses("web_django", server, DJANGO,
                    "get('/search', **{'X-User': 'admin'}) for _ in range(4)") == [200] * 4
    assert statuses("web_django", server, DJANGO, "get('/search'), get('/healthz')") == [200, 200]


def test_plot_throughput(server, tmp_path):
    plot = tmp_path / "throughput.svg"
    out = run("plot_throughput", server, str(plot), "--seconds", "0.01", "--rounds", "2")
    assert re.findall(r"^ *(\d+) keys", out, re.MULTILINE) == [
        "1", "4", "16", "64", "256", "1000", "4000"]
    assert "</svg>" in plot.read_text()
