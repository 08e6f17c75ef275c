"""What peers and loads print is read right, strange output refused. Method: real outputs."""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

from suite import parse  # noqa: E402  (after the path)
from suite.machine import Trouble  # noqa: E402

BENCH = {
    "decisions_per_s": 2e6, "frames_per_s": 8000.0, "decisions": 4_000_000, "frames": 16_000,
    "approved": 3_000_000, "denied": 1_000_000, "errors": 0, "distinct_keys": 1000,
    "bytes_in": 400_000, "bytes_out": 80_000_000, "client_cpu_s": 0.5, "server_cpu_s": 1.0,
    "latency_us": {"p50": 10.0, "p99": 20.0, "p999": 30.0, "max": 40.0}, "seconds": 2.0,
    "parameters": {"connections": 4, "batch": 250, "window": 16, "keys": 1000, "key_bytes": 15,
                   "distribution": "uniform", "shards": 2}}


def bench(**changes):
    return "a note\n" + json.dumps({**BENCH, **changes}) + "\n"


def test_the_load_tool_is_read():
    figures = parse.sluicegate_bench(bench())
    assert figures["unit"] == "decisions"
    assert figures["per_s"] == 2e6
    assert figures["allowed_percent"] == 75
    assert figures["outstanding"] == 4 * 250 * 16
    assert figures["depth"] == 16
    assert figures["bytes_out_each"] == 20
    assert figures["bytes_out_per_s"] == 40e6


def test_reports_cpu_time_of_both_sides_and_per_decision():
    figures = parse.sluicegate_bench(bench(), cores=4)
    assert figures["server_busy"] == 0.25  # of two shards' cores
    assert parse.sluicegate_bench(bench())["server_busy"] == 0.5  # the two share one
    assert figures["client_busy"] == 0.25
    assert figures["server_ns_each"] == pytest.approx(250)
    assert figures["ns_each"] == pytest.approx(375)


def test_an_unknown_server_cpu_time_is_left_out():
    figures = parse.sluicegate_bench(bench(server_cpu_s=None))
    assert "server_busy" not in figures
    assert figures["client_busy"] == 0.25


def test_errors_of_the_load_tool_end_the_run():
    with pytest.raises(Trouble, match="3 errors"):
        parse.sluicegate_bench(bench(errors=3))


def test_an_open_loop_reports_whether_it_kept_up():
    figures = parse.sluicegate_bench(bench(open_loop={"rate": 5, "kept_up": False}))
    assert figures["kept_up"] is False
    assert figures["asked_per_s"] == 5


def test_output_without_json_is_refused():
    with pytest.raises(Trouble, match="no line of JSON"):
        parse.sluicegate_bench("[]\nnothing\n")


@pytest.mark.parametrize("text, known", [
    ("  --client-cpu N  core", False), ("  --client  through", True), ("try --client.", True),
    ("  --clients", False), ("", False)])
def test_an_option_is_known_by_its_whole_name(text, known):
    assert parse.knows(text, "--client") is known


REDIS = '''"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms",\
"p99_latency_ms","max_latency_ms"
"INCR key:__rand_int__","684931.50","4.320","1.008","4.127","6.423","7.951","12.007"
'''


def test_redis_benchmark_is_read():
    figures = parse.redis_benchmark(REDIS)
    assert figures["per_s"] == 684931.5
    assert figures["latency_us"] == pytest.approx(
        {"mean": 4320, "p50": 4127, "p99": 7951, "max": 12007})


def test_an_old_redis_benchmark_without_latency_is_read():
    assert parse.redis_benchmark('"INCR x","512.25"\n') == {"per_s": 512.25}


def test_redis_benchmark_without_figures_is_refused():
    with pytest.raises(Trouble, match="redis-benchmark"):
        parse.redis_benchmark("Could not connect\n")


WRK = """Running 1s test @ http://127.0.0.1:1
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.54ms    2.10ms  20.75ms   88.76%
    Req/Sec    42.31k     5.01k   50.12k    60.00%
  Latency Distribution
     50%  519.00us
     75%    1.48ms
     90%    4.35ms
     99%    8.66ms
  42155 requests in 1.00s, 5.10MB read
Requests/sec:  42048.27
Transfer/sec:      5.09MB
"""


def test_wrk_is_read():
    figures = parse.wrk(WRK)
    assert figures["per_s"] == 42048.27
    assert figures["count"] == 42155
    assert figures["latency_us"] == pytest.approx({"p50": 519, "p99": 8660})


def test_a_percentile_of_nothing_is_left_out():
    assert parse.wrk(WRK.replace("8.66ms", "0.00us"))["latency_us"] == {"p50": 519}


@pytest.mark.parametrize("line", ["  Non-2xx or 3xx responses: 7",
                                  "  Socket errors: connect 0, read 3, write 0, timeout 0"])
def test_wrk_with_failed_requests_is_refused(line):
    with pytest.raises(Trouble, match=line.strip()[:7]):
        parse.wrk(WRK + line + "\n")


H2LOAD = """Application protocol: h2c
Main benchmark duration is over for thread #0. Stopping all clients.

finished in 1.00s, 38930.00 req/s, 1.48MB/s
requests: 38930 total, 38950 started, 38930 done, 38930 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 38930 2xx, 0 3xx, 0 4xx, 0 5xx
                     min         max         mean         sd        +/- sd
time for request:       52us     16.14ms       497us      1.32ms    91.30%
"""


def test_h2load_is_read():
    assert parse.h2load(H2LOAD) == {"unit": "requests", "per_s": 38930, "count": 38930}


@pytest.mark.parametrize("done, good", [("38930", "38929"), ("0", "0")])
def test_h2load_with_failed_requests_is_refused(done, good):
    text = H2LOAD.replace("38930 done, 38930", f"{done} done, {good}")
    with pytest.raises(Trouble, match=f"{good} of {done}"):
        parse.h2load(text)


GOOGLE = {"benchmarks": [
    {"name": "decide/10000", "run_type": "iteration", "items_per_second": 5e7},
    {"name": "decide/10000_mean", "run_type": "aggregate", "items_per_second": 4e7},
    {"name": "wake", "run_type": "iteration", "p50_us": 13.5}]}


def test_google_benchmark_is_read_where_it_counts_items():
    assert parse.google_benchmark(json.dumps(GOOGLE), "decisions") == {
        "decide/10000": {"unit": "decisions", "per_s": 5e7, "ns_each": 20, "keys": 10000}}


def test_a_failed_google_benchmark_is_refused():
    failed = {**GOOGLE["benchmarks"][0], "error_occurred": True, "error_message": "denied"}
    with pytest.raises(Trouble, match="denied"):
        parse.google_benchmark(json.dumps({"benchmarks": [failed]}), "items")
    with pytest.raises(Trouble, match="no JSON"):
        parse.google_benchmark("Segmentation fault", "items")


SNAIL = '''=== RUN   TestNewClient
time=2026-01-01T07:57:14.498Z level=INFO message="Received 41,314,671 responses in 3.5s"
time=2026-01-01T07:57:14.498Z level=INFO message="Response rate: 11,732,796 items/sec"
time=2026-01-01T07:57:14.498Z level=INFO message="Send rate: 12,514,028 items/sec"
--- PASS: TestNewClient (3.69s)
PASS
'''


def test_snail_is_read_by_its_responses():
    assert parse.snail(SNAIL) == {"unit": "items", "per_s": 11_732_796}


@pytest.mark.parametrize("text", ["testing: warning: no tests to run\nPASS\n",
                                  SNAIL.replace("--- PASS", "--- FAIL"), "PASS\n"])
def test_snail_without_a_passed_test_is_refused(text):
    with pytest.raises(Trouble, match="snail"):
        parse.snail(text)


def test_loopback_limits_echo_is_read():
    figures = parse.loopback_limits(json.dumps(
        {"limit": "echo", "items_per_s": 1000.0, "seconds": 2.0, "bytes_out": 8000,
         "client_cpu_s": 1.0, "server_cpu_s": 2.0,
         "parameters": {"connections": 1, "item_bytes": 4, "batch": 10, "window": 16}}))
    assert (figures["unit"], figures["per_s"]) == ("items", 1000)
    assert figures["bytes_out_per_s"] == 4000
    assert (figures["server_busy"], figures["client_busy"]) == (1, 0.5)
    assert figures["server_ns_each"] == pytest.approx(1e6)
    assert (figures["batch"], figures["depth"]) == (10, 16)


def test_loopback_limits_raw_is_read():
    figures = parse.loopback_limits('{"limit":"raw","bytes_per_s":1164499415.0,"seconds":1}')
    assert (figures["unit"], figures["per_s"]) == ("bytes", 1164499415)


def test_loopback_limits_without_a_rate_is_refused():
    with pytest.raises(Trouble, match="items_per_s"):
        parse.loopback_limits('{"port": 1}')


def grpc(**changes):
    return json.dumps({"calls": 10, "batch": 1000, "approved": 9000, "denied": 1000, "failed": 0,
                       "bytes_out": 400_000, "bytes_in": 200_000, "seconds": 2.0, "keys": 5000,
                       "connections": 4, "client_cpu_s": 0.1, "distinct_keys": 5000,
                       "latency_us": {"p50": 1, "p99": 2, "max": 3}, **changes})


def test_the_grpc_load_is_read():
    figures = parse.grpc_load(grpc(), 2.0)
    assert figures["per_s"] == 5000
    assert figures["allowed_percent"] == 90
    assert figures["frames_per_s"] == 5
    assert figures["server_busy"] == 1


@pytest.mark.parametrize("changes", [{"failed": 1}, {"approved": 8999}])
def test_a_grpc_load_with_checks_without_a_verdict_is_refused(changes):
    with pytest.raises(Trouble, match="of 10000 checks"):
        parse.grpc_load(grpc(**changes), 2.0)


def test_keys_are_counted_over_all_shards():
    metrics = ('# HELP sluicegate_keys x\nsluicegate_keys{shard="0"} 3\n'
               'sluicegate_keys{shard="1"} 4e0\nsluicegate_keys_max{shard="0"} 9\n')
    assert parse.keys_counted(metrics) == 7
