"""Parses the output of loads and peers. Every function takes text and returns figures.

Figures have the names of the fields in runs.jsonl; rates are `per_s` in their `unit`.
"""

import json
import re

from .machine import Trouble


def found(pattern, text, program):
    match = re.search(pattern, text, re.MULTILINE)
    if not match:
        raise Trouble(f"{program} printed no line like {pattern}: its output has changed, see "
                      "bench/suite/parse.py")
    return match


def json_object(text, program):
    """The last line that is an object: notes may stand before it."""
    for line in reversed(text.strip().splitlines()):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            return value
    raise Trouble(f"{program} printed no line of JSON: run it by hand to see its output")


def knows(help_text, option):
    """Whether a help text names the option itself: --client is not --client-cpu."""
    return re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", help_text) is not None


def sides(server_cpu_s, client_cpu_s, seconds, count, cores=1):
    """The load of both sides' cores, and the CPU time of one of `count`."""
    figures = {"client_cpu_s": client_cpu_s, "client_busy": client_cpu_s / seconds,
               "client_ns_each": 1e9 * client_cpu_s / max(count, 1)}
    if server_cpu_s is not None:
        figures |= {"server_cpu_s": server_cpu_s, "server_busy": server_cpu_s / seconds / cores,
                    "server_ns_each": 1e9 * server_cpu_s / max(count, 1),
                    "ns_each": 1e9 * (server_cpu_s + client_cpu_s) / max(count, 1)}
    return figures


def tail(line):
    """Latencies of an open loop, whether it kept its schedule, and the server's page faults."""
    figures = {}
    if line.get("latency_us"):
        figures["latency_us"] = line["latency_us"]
    if line.get("open_loop"):
        figures |= {"asked_per_s": line["open_loop"]["rate"],
                    "kept_up": line["open_loop"]["kept_up"]}
        if "send_delay_us" in line["open_loop"]:
            figures["send_delay_us"] = line["open_loop"]["send_delay_us"]
    if line.get("server_page_faults"):
        figures["page_faults"] = line["server_page_faults"]
    return figures


def sluicegate_bench(text, cores=1):
    """`sluicegate bench --json`, with a server that has so many cores."""
    line = json_object(text, "sluicegate bench")
    parameters, seconds, decisions = line["parameters"], line["seconds"], line["decisions"]
    if line["errors"]:
        raise Trouble(f"sluicegate bench counted {line['errors']} errors: run it by hand to see "
                      "them")
    figures = {"unit": "decisions", "per_s": line["decisions_per_s"],
               "allowed_percent": 100 * line["approved"] / max(decisions, 1),
               "distinct_keys": line["distinct_keys"], "frames_per_s": line["frames_per_s"],
               "bytes_out_per_s": line["bytes_out"] / seconds,
               "bytes_in_per_s": line["bytes_in"] / seconds,
               "bytes_out_each": line["bytes_out"] / max(decisions, 1),
               "bytes_in_each": line["bytes_in"] / max(decisions, 1),
               "seconds": seconds, **tail(line)}
    for name in ("keys", "key_bytes", "distribution", "batch", "connections"):
        figures[name] = parameters[name]
    if "client_system_calls" in line:
        figures["syscalls_per_s"] = line["client_system_calls"] / seconds
    figures["depth"] = parameters["window"]
    figures["outstanding"] = (parameters["batch"] * parameters["window"]
                              * parameters["connections"])
    return figures | sides(line["server_cpu_s"], line["client_cpu_s"], seconds, decisions,
                           min(parameters["shards"], cores))


def redis_benchmark(text):
    """`redis-benchmark --csv`: one command, in quotes, and its columns."""
    fields = found(r'^"[^"]*"((?:,"[\d.]+")+)\s*$', text, "redis-benchmark")[1]
    values = [float(value) for value in re.findall(r'"([\d.]+)"', fields)]
    figures = {"per_s": values[0]}
    if len(values) >= 7:  # rps, then avg, min, p50, p95, p99, max in milliseconds
        figures["latency_us"] = {"mean": 1e3 * values[1], "p50": 1e3 * values[3],
                                 "p99": 1e3 * values[5], "max": 1e3 * values[6]}
    return figures


WRK_UNITS_US = {"us": 1, "ms": 1e3, "s": 1e6, "m": 6e7}


def wrk(text):
    """`wrk --latency`; anything but 200 makes the run worthless."""
    if re.search(r"Non-2xx|Socket errors", text):
        raise Trouble("not every request was answered with 200: "
                      + found(r"(Non-2xx.*|Socket errors.*)", text, "wrk")[1])
    figures = {"unit": "requests",
               "per_s": float(found(r"Requests/sec:\s+([\d.]+)", text, "wrk")[1]),
               "count": int(found(r"(\d+) requests in", text, "wrk")[1])}
    latency = {}
    for percent, value, unit in re.findall(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s|m)$", text,
                                           re.MULTILINE):
        if float(value) > 0:  # it prints nonsense for some pipelined runs
            latency[f"p{percent}"] = float(value) * WRK_UNITS_US[unit]
    return figures | ({"latency_us": latency} if latency else {})


def h2load(text):
    """`h2load`; anything but 200 makes the run worthless."""
    done, good = found(r"requests:.* (\d+) done, (\d+) succeeded", text, "h2load").groups()
    if done != good or int(done) == 0:
        raise Trouble(f"not every request was answered with 200: {good} of {done}")
    return {"unit": "requests", "count": int(done),
            "per_s": float(found(r"finished in \S+, ([\d.]+) req/s", text, "h2load")[1])}


def google_benchmark(text, unit):
    """`--benchmark_format=json`: figures by name, of those that count items."""
    try:
        benchmarks = json.loads(text)["benchmarks"]
    except (ValueError, KeyError) as fault:
        raise Trouble("the benchmark printed no JSON: run it by hand to see its output"
                      ) from fault
    figures = {}
    for entry in benchmarks:
        if entry.get("run_type", "iteration") != "iteration" or "items_per_second" not in entry:
            continue
        if entry.get("error_occurred"):
            raise Trouble(f"{entry['name']}: {entry.get('error_message', 'failed')}")
        per_s = entry["items_per_second"]
        figures[entry["name"]] = {"unit": unit, "per_s": per_s, "ns_each": 1e9 / per_s}
        number = re.search(r"/(\d+)", entry["name"])
        if number:
            figures[entry["name"]]["keys"] = int(number[1])
    return figures


def google_benchmark_p50(text):
    """The p50_us counter of a latency benchmark."""
    return json.loads(text)["benchmarks"][0]["p50_us"]


def snail(text):
    """A throughput test of snail: its slog lines, numbers grouped by commas."""
    if re.search(r"^--- FAIL|^FAIL|no tests to run", text, re.MULTILINE):
        raise Trouble("snail's test did not pass: run its program by hand to see why")
    rate = found(r"Response rate: ([\d,]+) items/sec", text, "snail's test")[1]
    return {"unit": "items", "per_s": float(rate.replace(",", ""))}


# Rate fields of `loopback_limits --json` and their units.
LIMITS_RATES = {"items_per_s": "items", "requests_per_s": "requests", "bytes_per_s": "bytes"}


def loopback_limits(text):
    """`loopback_limits ... --json`."""
    line = json_object(text, "loopback_limits")
    for field, unit in LIMITS_RATES.items():
        if field in line:
            figures = {"unit": unit, "per_s": line[field]}
            break
    else:
        raise Trouble(f"loopback_limits reported none of {', '.join(LIMITS_RATES)}: its output has "
                      "changed, see bench/suite/parse.py")
    parameters = line.get("parameters", {})
    for name, source in (("seconds", line), ("frames_per_s", line), ("item_bytes", parameters),
                         ("batch", parameters), ("connections", parameters),
                         ("keys", parameters), ("key_bytes", parameters)):
        if name in source:
            figures[name] = source[name]
    if "window" in parameters:
        figures["depth"] = parameters["window"]
    for name in ("bytes_out", "bytes_in"):
        if name in line:
            figures[f"{name}_per_s"] = line[name] / line["seconds"]
    figures |= tail(line)
    if {"seconds", "server_cpu_s", "client_cpu_s"} <= line.keys():
        figures |= sides(line["server_cpu_s"], line["client_cpu_s"], line["seconds"],
                         figures["per_s"] * line["seconds"])
    return figures


def keys_counted(metrics):
    """The number of keys that the server reports, over all shards."""
    return sum(int(float(count)) for count in
               re.findall(r"^sluicegate_keys\{[^}]*\} (\S+)", metrics, re.MULTILINE))


def grpc_load(text, server_cpu_s):
    """bench/suite/grpc_load.py."""
    line = json_object(text, "the gRPC load")
    checks = line["calls"] * line["batch"]
    if line["failed"] or line["approved"] + line["denied"] != checks:
        raise Trouble(f"only {line['approved'] + line['denied']} of {checks} checks got a verdict: "
                      "start the server by hand to see why")
    figures = {"unit": "decisions", "per_s": checks / line["seconds"],
               "allowed_percent": 100 * line["approved"] / max(checks, 1),
               "frames_per_s": line["calls"] / line["seconds"],
               "outstanding": line["batch"] * line["connections"],
               "bytes_out_per_s": line["bytes_out"] / line["seconds"],
               "bytes_in_per_s": line["bytes_in"] / line["seconds"],
               "bytes_out_each": line["bytes_out"] / max(checks, 1),
               "bytes_in_each": line["bytes_in"] / max(checks, 1)}
    for name in ("seconds", "keys", "connections", "batch", "distinct_keys", "latency_us"):
        figures[name] = line[name]
    return figures | sides(server_cpu_s, line["client_cpu_s"], line["seconds"], checks)
