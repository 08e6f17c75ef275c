"""The commands that send requests, against the real server. Method: their exit codes and their
output."""

import json
import re
import subprocess
import time

import pytest

from conftest import LONG_WINDOW
from http_peer import ask, inspect, totals
from server_process import TIMEOUT_S, binary, clean_environment, eventually, run_binary


def command(server, *words):
    return run_binary(*words, "--address", f"127.0.0.1:{server.native_port}")


def acquire(server, *arguments):
    return command(server, "acquire", *arguments)


def test_acquire_approved(server, key):
    result = acquire(server, key)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("approved")
    assert "99 of 100 remaining" in result.stdout
    assert inspect(server, key)["NumApprovedThisWindow"] == 1


def test_acquire_denied(server, key):
    result = acquire(server, key, "--max-requests", "2", "--count", "3")
    assert result.returncode == 1
    words = [line.split()[0] for line in result.stdout.splitlines()]
    assert words == ["approved", "approved", "denied"]


def test_acquire_with_a_window(server, key):
    result = acquire(server, key, "--max-requests", "2", "--window-millis", "1m", "--count", "3")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["approved"] * 2 + ["denied"]
    assert "(window 60000 ms)" in result.stdout


def test_acquire_of_cost_0_shows_the_key(server, key):
    result = acquire(server, key, "--cost", "0")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "approved  100 of 100 remaining (window 3600000 ms)\n"
    acquire(server, key)
    assert "99 of 100 remaining for" in acquire(server, key, "--cost", "0").stdout
    assert inspect(server, key)["NumApprovedThisWindow"] == 1


def test_acquire_cost(server, key):
    assert acquire(server, key, "--cost", "60").returncode == 0
    assert acquire(server, key, "--cost", "60").returncode == 1
    result = acquire(server, key, "--cost", "101")
    assert result.returncode == 1
    assert re.match(r"never_fits  40 of 100 remaining for \d+ ms", result.stdout)
    assert result.stderr == "never_fits: the cost is above the key's limit: ask for less\n"


def test_every_refusal_of_acquire_has_its_sentence_once(server, key):
    result = acquire(server, key, "--max-requests", "1", "--count", "3")
    assert [line.split()[0] for line in result.stdout.splitlines()] == [
        "approved", "denied", "denied"]
    assert result.stderr == ("denied: the key's limit is reached: ask again later, or wait "
                             "(--wait)\n")


@pytest.mark.parametrize("command_name", ["acquire", "release", "debug"])
def test_an_empty_key_is_an_error(server, command_name):
    result = command(server, command_name, "")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "Error: the key is empty\n"


@pytest.mark.parametrize("command_name", ["acquire", "release", "debug"])
def test_a_key_that_is_too_long_is_an_error(server, command_name):
    result = command(server, command_name, "x" * 2_000)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == ("Error: the key has 2000 bytes; the server allows 1024 "
                             "(--max-key-bytes)\n")


def test_a_cost_above_the_limit_of_a_new_key_shows_no_window(server, key):
    result = acquire(server, key, "--cost", "101")
    assert (result.returncode, result.stdout) == (1, "never_fits\n")


def test_times_may_have_a_unit(server, key):
    acquire(server, key, "--max-requests", "1")
    result = acquire(server, key, "--wait", "--wait-limit-ms", "200ms", "--timeout-millis", "20s")
    assert result.returncode == 1, result
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["queued", "wait_limit"]
    assert result.stderr == "wait_limit: it waited as long as allowed\n"
    result = acquire(server, key, "--timeout-millis", "2 minutes")
    assert result.returncode == 2 and "a time such as 250ms or 10s" in result.stderr
    assert run_binary("acquire", "--help").stdout.count("A time may have a unit") == 1


@pytest.mark.parametrize("words", [["acquire", "k"], ["release", "k"], ["debug"], ["ping"],
                                   ["usage"], ["quota", "reset", "--all"], ["reserve", "m"]])
def test_the_address_has_a_variable(server, words):
    environment = {"SLUICEGATE_ADDRESS": f"127.0.0.1:{server.native_port}"}
    assert run_binary(*words, environment=environment).returncode == 0
    unreachable = run_binary(*words, "--address", "127.0.0.1:1", environment=environment)
    assert unreachable.returncode == 2
    bad = run_binary(*words, environment={"SLUICEGATE_ADDRESS": "rates"})
    assert bad.stderr == ("Error: 'rates' is not HOST:PORT (environment variable "
                          "SLUICEGATE_ADDRESS)\n")
    command_words = words[:2] if words[0] == "quota" else words[:1]
    assert "SLUICEGATE_ADDRESS" in run_binary(*command_words, "--help").stdout


@pytest.mark.parametrize("words", [["acquire", "k"], ["acquire", "k", "--route"], ["release", "k"],
                                   ["debug"], ["ping"], ["usage"], ["reserve", "m"],
                                   ["top", "--once"]])
def test_the_first_of_several_addresses_that_answers_is_asked(server, words):
    addresses = f"127.0.0.1:1,127.0.0.1:{server.native_port},127.0.0.1:2"
    result = run_binary(*words, "--address", addresses)
    assert result.returncode == 0, result
    assert run_binary(*words, environment={"SLUICEGATE_ADDRESS": addresses}).returncode == 0
    assert run_binary(*words, "--address", "127.0.0.1:1,127.0.0.1:2").returncode == 2
    bad = run_binary(*words, "--address", f"127.0.0.1:{server.native_port},rates")
    assert (bad.returncode, bad.stderr) == (2, "Error: 'rates' is not HOST:PORT\n")


def test_bench_puts_no_load_on_the_server_of_the_variable(server):
    result = run_binary("bench", "--seconds", "0.1", "--warm-up-seconds", "0", "--keys", "10",
                        environment={"SLUICEGATE_ADDRESS": f"127.0.0.1:{server.native_port}"})
    assert result.returncode == 0 and "(started for this run)" in result.stdout


def test_bench_takes_one_address():
    result = run_binary("bench", "--address", "127.0.0.1:1,127.0.0.1:2")
    assert (result.returncode, result.stdout) == (1, "")
    assert "--address: has several addresses: bench loads one server" in result.stderr


@pytest.mark.parametrize("flag", ["--server-cpu", "--client-cpu"])
def test_bench_names_the_cpus_that_there_are(flag):
    result = run_binary("bench", flag, "777", "--seconds", "0.1")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {flag} 777: there is no such CPU"), result
    assert re.search(r"it may use \d", result.stderr)


@pytest.mark.parametrize("words", [["top", "--once"], ["quota", "holders"]])
def test_the_rest_port_is_given_or_announced(server, words):
    rest, native = f"127.0.0.1:{server.port}", f"127.0.0.1:{server.native_port}"
    for given in (["--rest-address", rest], ["--rest-address", rest, "--address", native]):
        assert run_binary(*words, *given).returncode == 0
    variables = {"SLUICEGATE_REST_ADDRESS": rest, "SLUICEGATE_ADDRESS": native}
    assert run_binary(*words, environment=variables).returncode == 0
    for given, environment in ((["--address", native], {}), ([], {"SLUICEGATE_ADDRESS": native})):
        result = run_binary(*words, *given, environment=environment)
        assert result.returncode == 0, result
    assert run_binary(*words, "--rest-address", "", environment=variables).returncode == 2
    result = run_binary(*words, "--address", rest)
    assert result.returncode == 2
    assert "this is the REST port; the native one is another" in result.stderr


def test_an_address_of_version_6_keeps_its_brackets():
    result = run_binary("acquire", "k", "--address", "[::1]:1")
    assert result.returncode == 2
    assert result.stderr.startswith("Error: cannot connect to [::1]:1: ")


@pytest.mark.parametrize("words", [["top", "--once"], ["quota", "holders"]])
def test_native_port_instead_of_the_rest_one_is_named(server, words):
    result = run_binary(*words, "--rest-address", f"127.0.0.1:{server.native_port}")
    assert result.returncode == 2, result
    assert len(result.stderr.splitlines()) == 1
    assert f"native protocol: REST is on port {server.port}\n" in result.stderr


@pytest.mark.parametrize("words, cure", [(["aquire", "k"], "acquire"), (["quota", "shwo"], "show"),
                                         (["help", "benhc"], "bench")])
def test_a_mistyped_command_gets_the_nearest(words, cure):
    result = run_binary(*words)
    assert result.returncode != 0
    assert result.stderr.endswith(f"; did you mean {cure}?\n"), result


@pytest.mark.parametrize("words", ["version", "help", "completion bash", "help acquire", "ping",
                                   "acquire k", "reserve n", "usage"])
def test_output_that_cannot_be_written_is_an_error(server, words):
    variables = {"SLUICEGATE_ADDRESS": f"127.0.0.1:{server.native_port}"}
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = subprocess.run([binary(), *words.split()], stdout=full, stderr=subprocess.PIPE,
                                text=True, timeout=TIMEOUT_S, check=False,
                                env={**clean_environment(), **variables})
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1] == (
        "Error: the output cannot be written: No space left on device")


@pytest.mark.parametrize("words, bounds", [
    ("acquire k --cost", "0 to 1000000000"), ("acquire k --max-requests", "1 to 1000000000"),
    ("acquire k --window-millis", "10 to 31536000000"),
    ("acquire k --wait --wait-limit-ms", "0 to 3600000"), ("release k --cost", "1 to 1000000000"),
    ("reserve n --input-tokens", "0 to 9223372036854775807"),
    ("reserve n --requests", "0 to 4294967294"), ("settle 1 --requests", "0 to 4294967294"),
    ("reserve n --lifetime-ms", "0 to 2592000000"), ("settle 1 --cost", "0 to 9223372036854775807"),
    ("bench --batch", "1 to 8192"), ("bench --denied-share", "0 to 1")])
@pytest.mark.parametrize("value", ["-1", "4294967295000000000000"])
def test_a_value_out_of_bounds_is_named_with_the_bounds(server, words, bounds, value):
    command_name, *others, flag = words.split()
    result = command(server, command_name, *others, flag, value)
    assert result.returncode == (1 if command_name == "bench" else 2)
    assert result.stderr.endswith(f"Error: {flag}: must be {bounds}, not {value}\n")


@pytest.mark.parametrize("flag", ["--client-cpu", "--server-pid"])
def test_a_value_that_is_no_number_is_named(server, flag):
    result = command(server, "bench", flag, "x")
    assert result.returncode == 1
    assert result.stderr.endswith(f"Error: {flag} cannot be x\n")


@pytest.mark.parametrize("value", ["much", "", "1e3"])
def test_a_value_that_is_no_number_is_named_with_the_bounds(server, value):
    result = command(server, "acquire", "k", "--cost", value)
    assert result.returncode == 2
    assert result.stderr.endswith(f"Error: --cost: must be 0 to 1000000000, not {value}\n")


@pytest.mark.parametrize("words, cure", [(["acquire", "k", "--cots", "2"], "cost"),
                                         (["quota", "set", "m", "--limt", "x"], "limit")])
def test_a_mistyped_flag_of_a_command_gets_the_nearest(words, cure):
    result = run_binary(*words)
    assert result.returncode == 2
    assert result.stderr.endswith(f"; did you mean --{cure}?\n"), result


def test_acquire_waits(server, key):
    assert acquire(server, key, "--max-requests", "1").returncode == 0
    waiting = subprocess.Popen(
        [binary(), "acquire", key, "--wait", "--address", f"127.0.0.1:{server.native_port}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment())
    try:
        eventually(lambda: inspect(server, key)["NumWaiting"] == 1, "it waits")
        assert waiting.poll() is None
        ask(server, "DELETE", f"/rate/{key}/1")
        out, err = waiting.communicate(timeout=TIMEOUT_S)
    finally:
        waiting.kill()
        waiting.wait()
    assert (waiting.returncode, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["queued", "approved"]


def test_acquire_stops_waiting_at_its_wait_limit(server, key):
    acquire(server, key, "--max-requests", "1")
    result = acquire(server, key, "--wait", "--wait-limit-ms", "200")
    assert result.returncode == 1
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["queued", "wait_limit"]


@pytest.mark.parametrize("words", [("acquire", "--wait"), ("reserve", "--wait")])
def test_a_server_that_shuts_down_is_no_denial(start_server, words):
    server = start_server("--requests-can-set-rate", *LONG_WINDOW)
    acquire(server, "full", "--max-requests", "1")
    command(server, "quota", "set", "full", "--limit", "rpd:requests:1/1d")
    command(server, "reserve", "full")
    command_name, *flags = words
    waiting = subprocess.Popen(
        [binary(), command_name, "full", *flags, "--address", f"127.0.0.1:{server.native_port}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment())
    try:
        eventually(lambda: waits(server, command_name), "it waits")
        server.process.terminate()
        _, err = waiting.communicate(timeout=TIMEOUT_S)
    finally:
        waiting.kill()
        waiting.wait()
    assert waiting.returncode == 2 and "shutting down" in err


def waits(server, command_name):
    if command_name == "acquire":
        return inspect(server, "full")["NumWaiting"] == 1
    return "1 waiting" in command(server, "quota", "show", "full").stdout


@pytest.mark.parametrize("flags, most", [(["--route"], 0), ([], 40)])
def test_acquire_route_sends_no_shard_messages(start_server, flags, most):
    server = start_server("--shards", "2")
    for number in range(20):
        assert acquire(server, f"key{number}", *flags, "--count", "2").returncode == 0
    entries = totals(server)["sluicegate_other_shard_entries_total"]
    assert entries <= most and (entries > 0) == (most > 0)


def test_release_frees_permits(server, key):
    acquire(server, key, "--cost", "60")
    result = command(server, "release", key, "--cost", "20")
    assert (result.returncode, result.stdout, result.stderr) == (0, "released\n", "")
    assert inspect(server, key)["NumApprovedThisWindow"] == 40
    assert command(server, "release", f"{key}unknown").returncode == 0


def test_reset_frees_all_permits(server, key):
    acquire(server, key, "--cost", "60")
    result = command(server, "reset", key)
    assert (result.returncode, result.stdout, result.stderr) == (0, "reset\n", "")
    assert inspect(server, key)["NumApprovedThisWindow"] == 0
    assert command(server, "reset", f"{key}unknown").returncode == 0


def test_debug_shows_a_key(server, key):
    acquire(server, key, "--max-requests", "2", "--count", "3")
    result = command(server, "debug", key)
    assert (result.returncode, result.stderr) == (0, "")
    header, row = result.stdout.splitlines()
    shown = dict(zip(header.replace(" ms", "").split(), row.split()))
    assert {"APPROVED": "2", "LIMIT": "2", "DENIED": "1", "WAITING": "0", "QUEUE": "400",
            "WINDOW": "3600000", "KEY": key}.items() <= shown.items()
    result = command(server, "debug", f"{key}unknown")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"{key}unknown is not live\n"


def test_debug_shows_all_keys(start_server):
    server = start_server(*LONG_WINDOW, "--max-requests", "1000000000")
    bench("--address", f"127.0.0.1:{server.native_port}", "--keys", "5000", "--batch", "100")
    result = command(server, "debug", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    keys = [json.loads(line) for line in result.stdout.splitlines()]
    assert len({key["key"] for key in keys}) == len(keys) == 5_000
    assert all(key["approved"] > 0 and key["denied"] == 0 for key in keys)
    result = command(server, "debug", "--limit", "7")
    assert result.returncode == 0 and "--limit" in result.stderr
    assert len(result.stdout.splitlines()) == 1 + 7


def test_ping(server):
    result = command(server, "ping", "--count", "20")
    assert (result.returncode, result.stderr) == (0, "")
    least, median, most = (float(us) for us in re.findall(r"([\d.]+) us", result.stdout))
    assert 0 < least <= median <= most
    assert result.stdout.startswith("20 of 20 answered: ")
    assert result.stdout.endswith(f" of {server.shards})\n")


def test_ping_of_a_server_that_does_not_answer(start_server):
    server = start_server()
    server.pause()
    result = command(server, "ping", "--timeout-millis", "200")
    server.resume()
    assert result.returncode == 2 and result.stdout == "", result
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [["acquire", "k"], ["release", "k"], ["debug"], ["ping"]])
@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1", "no.such.host.invalid:8081",
                                     "127.0.0.1:99999"])
def test_bad_address_is_one_line_and_exit_2(words, address):
    result = run_binary(*words, "--address", address)
    assert result.returncode == 2, result
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("Error: ")


@pytest.mark.parametrize("words", [["acquire"], ["release", "k", "--cost", "0"],
                                   ["debug", "--limit", "0"], ["ping", "--count", "x"]])
def test_usage_error_is_exit_2_where_1_is_an_answer(words):
    result = run_binary(*words)
    assert result.returncode == 2 and result.stdout == "", result
    assert "\nError: " in result.stderr


@pytest.mark.parametrize("words", [["acquire", "k"], ["ping"], ["reserve", "m"], ["usage", "m"]])
def test_rest_port_instead_of_the_native_one_is_named(server, words):
    result = run_binary(*words, "--address", f"127.0.0.1:{server.port}")
    assert result.returncode == 2, result
    assert len(result.stderr.splitlines()) == 1
    assert "this is the REST port; the native one is another" in result.stderr


def bench(*arguments):
    result = run_binary("bench", "--json", "--seconds", "0.5", "--warm-up-seconds", "0",
                        *arguments)
    assert result.returncode == 0, result
    lines = result.stdout.splitlines()
    assert len(lines) == 1, "--json prints one line"
    return json.loads(lines[0])


FIELDS = ["decisions_per_s", "frames_per_s", "approved", "denied", "distinct_keys", "bytes_in",
          "bytes_out", "bytes_in_per_decision", "bytes_out_per_decision", "client_cpu_s",
          "client_cpu_ns_per_decision", "server_cpu_s", "server_cpu_ns_per_decision",
          "client_system_calls", "latency_us", "rung", "handles", "outstanding", "open_loop",
          "server_page_faults"]


def assert_adds_up(line):
    assert [name for name in FIELDS if name not in line] == []
    assert line["approved"] + line["denied"] == line["decisions"] > 0
    assert line["errors"] == 0 and line["other_verdicts"] == {}
    latency = line["latency_us"]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["p999"] <= latency["max"]
    assert line["bytes_in"] > 0 and line["bytes_out"] > 0


def test_bench_with_a_server_of_its_own(io):
    line = bench("--keys", "1000", "--io", io, "--batch", "50", "--connections", "2")
    assert_adds_up(line)
    assert line["distinct_keys"] == 1_000
    assert line["denied"] == 0
    assert line["server_cpu_s"] > 0


def test_bench_through_the_client_library(io):
    line = bench("--keys", "1000", "--io", io, "--batch", "50", "--connections", "2", "--client")
    assert_adds_up(line)
    assert line["rung"] == "R5"
    assert line["distinct_keys"] == 1_000
    assert line["outstanding"] == 50 * 2 * 16
    assert line["denied"] == 0


@pytest.mark.parametrize("distribution, most", [("uniform", 1_000), ("zipf", 1_000), ("one", 1)])
@pytest.mark.parametrize("client", [[], ["--client"]])
def test_bench_by_handle(io, client, distribution, most):
    line = bench("--keys", "1000", "--io", io, "--batch", "50", "--connections", "3", "--handles",
                 "--distribution", distribution, *client)
    assert_adds_up(line)
    assert line["handles"] and line["denied"] == 0
    assert line["distinct_keys"] <= most
    # Four bytes an entry, plus the rest of a frame of fifty.
    assert distribution == "one" or 4 <= line["bytes_out_per_decision"] <= 6.5


@pytest.mark.parametrize("flags, messages", [(["--route"], "none"), ([], "some")])
def test_bench_by_handle_with_two_shards(start_server, flags, messages):
    server = start_server(*LONG_WINDOW, "--max-requests", "1000000000", "--shards", "2")
    line = bench("--address", f"127.0.0.1:{server.native_port}", "--keys", "1000", "--handles",
                 "--batch", "20", "--window", "4", "--denied-share", "0.3", *flags)
    assert_adds_up(line)
    assert line["distinct_keys"] == 1_000
    assert abs(line["denied_share"] - 0.3) <= 0.02
    assert (totals(server)["sluicegate_other_shard_entries_total"] == 0) == (messages == "none")


def test_bench_reports_too_few_handles(start_server):
    server = start_server(*LONG_WINDOW, "--max-handles", "100")
    result = run_binary("bench", "--address", f"127.0.0.1:{server.native_port}", "--handles",
                        "--keys", "1000", "--connections", "1")
    assert result.returncode == 2 and "100" in result.stderr, result
    result = run_binary("bench", "--address", f"127.0.0.1:{server.native_port}", "--handles",
                        "--keys", "160", "--connections", "8", "--seconds", "0.1")
    assert result.returncode == 2 and "--max-handles" in result.stderr, result


def test_bench_takes_no_argument():
    assert "Usage: sluicegate bench [OPTIONS]\n" in run_binary("bench", "--help").stdout
    result = run_binary("bench", "localhost:8081")
    assert result.returncode != 0
    assert "bench takes no argument 'localhost:8081'" in result.stderr
    assert "--address HOST:PORT" in result.stderr


@pytest.mark.parametrize("client", [[], ["--client"]])
def test_bench_on_a_schedule(io, client):
    line = bench("--keys", "1000", "--io", io, "--batch", "50", "--rate", "20000", *client)
    assert_adds_up(line)
    schedule = line["open_loop"]
    assert schedule["rate"] == 20_000
    # After a pause of the machine the tool catches up; without a schedule it would send a hundred
    # times as many.
    assert line["decisions"] <= 2 * 20_000 * line["seconds"]
    # A busy machine may stop either side for a while; then the report says so.
    assert schedule["kept_up"] == (schedule["behind_s"] <= 0.005)
    assert line["decisions"] >= 20_000 * (line["seconds"] - schedule["behind_s"]) * 0.8


@pytest.mark.parametrize("flags", [["--keys", "1000000", "--batch", "1", "--connections", "1",
                                    "--window", "1"], ["--keys", "2000000"]])
def test_bench_is_warm_in_a_moment(flags):
    begin = time.monotonic()
    assert_adds_up(bench(*flags))
    assert time.monotonic() - begin < 30  # asking for every key one by one takes minutes


@pytest.mark.parametrize("distribution, most", [("uniform", 1_000), ("zipf", 1_000), ("one", 1)])
def test_bench_against_a_running_server(start_server, distribution, most):
    server = start_server(*LONG_WINDOW, "--max-requests", "1000000000")
    line = bench("--address", f"127.0.0.1:{server.native_port}", "--keys", "1000",
                 "--batch", "20", "--connections", "3", "--distribution", distribution)
    assert_adds_up(line)
    assert line["server_cpu_s"] is None
    shown = json.loads(ask(server, "GET", "/debug").body)["Instances"]
    assert len(shown) == line["distinct_keys"] <= most
    if distribution != "zipf":
        assert line["distinct_keys"] == most


@pytest.mark.parametrize("flags, messages", [(["--route"], "none"), ([], "some"),
                                             (["--misroute"], "all"),
                                             (["--misroute", "--connections", "1"], "all")])
def test_bench_routes(start_server, flags, messages):
    server = start_server(*LONG_WINDOW, "--max-requests", "1000000000", "--shards", "2")
    line = bench("--address", f"127.0.0.1:{server.native_port}", "--keys", "1000",
                 "--batch", "20", "--window", "4", *flags)
    assert_adds_up(line)
    assert line["parameters"]["route"] == ("--route" in flags)
    assert line["parameters"]["misroute"] == ("--misroute" in flags)
    counts = totals(server)
    decisions = sum(count for series, count in counts.items()
                    if series.startswith("sluicegate_decisions_total"))
    assert decisions >= line["decisions"]
    entries = counts["sluicegate_other_shard_entries_total"]
    assert {"none": entries == 0, "some": 0 < entries < decisions,
            "all": entries == decisions}[messages], (entries, decisions)


def test_bench_holds_handles_of_other_shards_keys(start_server):
    server = start_server(*LONG_WINDOW, "--max-requests", "1000000000", "--shards", "2")
    line = bench("--address", f"127.0.0.1:{server.native_port}", "--keys", "1000",
                 "--connections", "3", "--batch", "20", "--window", "4", "--handles", "--route",
                 "--other-handle")
    assert_adds_up(line)
    assert line["parameters"]["other_handle"]
    # Each is used once, before the run.
    assert totals(server)["sluicegate_other_shard_entries_total"] == 3


@pytest.mark.parametrize("client", [[], ["--client"]])
def test_bench_asks_new_keys_evenly_over_a_run(start_server, client):
    server = start_server(*LONG_WINDOW, "--max-requests", "1000000000")
    flags = ("--address", f"127.0.0.1:{server.native_port}", "--keys", "100", "--batch", "20",
             "--rate", "20000", *client)
    line = bench(*flags, "--new-keys", "4000")
    assert_adds_up(line)
    assert line["parameters"]["new_keys"] == 4_000
    # Two fifths of the 10,000 decisions of half a second; keys count when they are asked for.
    new_keys = line["distinct_keys"] - 100
    assert abs(new_keys - 0.4 * line["decisions"]) <= 0.4 * line["outstanding"]
    assert len(json.loads(ask(server, "GET", "/debug").body)["Instances"]) >= line["distinct_keys"]
    assert bench(*flags)["distinct_keys"] == 100


@pytest.mark.parametrize("flags", [["--rate", "100"], [], ["--rate", "9000", "--handles"],
                                   ["--rate", "9000", "--denied-share", "0.1"]])
def test_bench_refuses_impossible_new_keys(flags):
    result = run_binary("bench", "--new-keys", "1000", "--seconds", "1", *flags)
    assert result.returncode != 0 and "--new-keys" in result.stderr, result


def test_bench_refuses_impossible_routes(start_server):
    one = start_server("--shards", "1")
    result = run_binary("bench", "--address", f"127.0.0.1:{one.native_port}", "--misroute")
    assert result.returncode == 2 and "more than one shard" in result.stderr, result
    two = start_server("--shards", "2")
    result = run_binary("bench", "--address", f"127.0.0.1:{two.native_port}", "--route",
                        "--connections", "1")
    assert result.returncode == 2 and "--connections 2" in result.stderr, result
    result = run_binary("bench", "--address", f"127.0.0.1:{one.native_port}", "--handles",
                        "--route", "--other-handle")
    assert result.returncode == 2 and "more than one shard" in result.stderr, result
    result = run_binary("bench", "--handles", "--other-handle")
    assert result.returncode == 1 and "--route" in result.stderr, result
    result = run_binary("bench", "--route", "--misroute")
    assert result.returncode == 1 and "--misroute" in result.stderr, result


@pytest.mark.parametrize("flags", [["--keys", "1000"], ["--keys", "50"],
                                   ["--keys", "1000", "--distribution", "zipf", "--client"]])
@pytest.mark.parametrize("share", [0.2, 0.9])
def test_bench_meets_the_denied_share(io, share, flags):
    line = bench("--denied-share", str(share), "--io", io, *flags)
    assert_adds_up(line)
    assert abs(line["denied"] / line["decisions"] - share) <= 0.01
    assert line["parameters"]["denied_by"] == ("cost" if "50" in flags else "key")


def test_bench_leaves_no_key_denied(start_server):
    server = start_server(*LONG_WINDOW, "--max-requests", "1000")
    address = ["--address", f"127.0.0.1:{server.native_port}", "--keys", "1000"]
    for share in ["0.5", "0.1"]:
        line = bench(*address, "--denied-share", share)
        assert_adds_up(line)
        assert abs(line["denied_share"] - float(share)) <= 0.01
    line = bench(*address)
    assert line["denied"] == 0


def test_bench_progress_goes_to_stderr_and_the_summary_is_readable(io):
    result = run_binary("bench", "--seconds", "0.3", "--keys", "100", "--io", io)
    assert result.returncode == 0
    assert "decisions" in result.stdout
    assert "latency" in result.stdout
    assert result.stderr
