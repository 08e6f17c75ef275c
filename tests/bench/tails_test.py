"""Open loops get their rates from the runs before them; their tails become a table with its aims.

Method: loads replaced by figures; lines of runs made by hand.
"""

import contextlib
import functools
import io
import json
import pathlib
import socket
import sys
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from suite import events, parse, records, suite as suites, table, tails, targets  # noqa: E402
from suite.machine import Trouble  # noqa: E402
from suite.servers import Server  # noqa: E402
from suite.suite import OURS, Contender, Suite  # noqa: E402

BASE = {"measurement": "2026-01-01T00:00:00", "rung": "tails", "round": 1, "unit": "decisions",
        "steal_percent": 0.0, "commit": "abc", "kernel": "6.1", "cpu": "a CPU", "cores": 2}
CASE = tails.case_of(64)


def suite(folder, **settings):
    made = Suite(server=pathlib.Path("sluicegate"), build=folder, scratch=folder,
                 records=records.Records(folder), facts={"commit": "abc"}, **settings)
    made.bench_help = "--rate N"
    return made


def runs(case, who, *p99s, **figures):
    return [{**BASE, "case": case, "who": who, "round": number, "per_s": 1e6,
             "frames_per_s": 4000.0, "kept_up": True, "page_faults": {"minor": 3, "major": 0},
             "latency_us": {"p50": 50.0, "p99": p99, "p999": 2 * p99, "max": 3 * p99}, **figures}
            for number, p99 in enumerate(p99s, 1)]


def aims(lines):
    return {row.target.what.rpartition("p99")[2].strip(", "): row.verdict
            for row in targets.rows(lines)}


# ------------------------------------------------------------------------------- the loads


def test_the_echo_has_the_same_frames_as_often():
    figures = {"frames_per_s": 1000.0, "bytes_out_per_s": 4_456_000.0, "bytes_in_per_s": 72_000.0,
               "connections": 4, "depth": 16}
    assert tails.echo_flags(figures) == ("--batch=18", "--item-bytes=248", "--rate=18000",
                                         "--connections=4", "--window=16")


def test_a_frame_with_a_tiny_reply_is_one_item():
    figures = {"frames_per_s": 10.0, "bytes_out_per_s": 20.0, "bytes_in_per_s": 10.0,
               "connections": 1, "depth": 1}
    assert tails.echo_flags(figures)[:3] == ("--batch=1", "--item-bytes=4", "--rate=10")


def asked(monkeypatch):
    """The rates that loads are asked for, by program; each reaches 1 M/s closed, redis 100 k."""
    rates = []

    def run(who, closed_per_s, flags):
        rate = next((float(flag.split("=")[1]) for flag in flags if flag.startswith("--rate=")), 0)
        rates.append((who, rate))
        per_s = rate or closed_per_s
        return {"per_s": per_s, "unit": "items", "frames_per_s": per_s / 100,
                "bytes_out_per_s": per_s * 20, "bytes_in_per_s": per_s * 0.04, "connections": 4,
                "depth": 16, "latency_us": {"p50": 1, "p99": 2}, "kept_up": True}

    monkeypatch.setattr(tails.loads, "own_bench",
                        lambda version, *flags: run(str(version.server), 1e6, flags))
    monkeypatch.setattr(tails.loads, "limits",
                        lambda _, way, *flags: run(way, 0, flags))
    monkeypatch.setattr(tails.loads, "redis_pipelines",
                        lambda _, server, batch, *flags: run("redis", 1e5, flags))
    return rates


def test_each_runs_at_a_share_of_its_own_closed_loop(tmp_path, monkeypatch):
    rates = asked(monkeypatch)
    measured = suite(tmp_path, rounds=2)
    measured.interleave("tails", tails.contenders_of(measured, 64, Server(1, 2)))
    assert rates == [("sluicegate", 0), ("sluicegate", 7e5), ("echo", 7e3), ("redis", 0),
                     ("redis", 7e4)] * 2


def test_the_server_before_runs_at_its_own_rate_too(tmp_path, monkeypatch):
    rates = asked(monkeypatch)
    measured = suite(tmp_path, rounds=1, against=pathlib.Path("before"))
    measured.interleave("tails", tails.contenders_of(measured, 64, None))
    assert rates == [("sluicegate", 0), ("sluicegate", 7e5), ("echo", 7e3), ("before", 0),
                     ("before", 7e5)]


def test_without_its_closed_loop_the_open_one_measures_that_first(tmp_path, monkeypatch):
    rates = asked(monkeypatch)
    measured = suite(tmp_path, rounds=1, cases="open loop")
    measured.interleave("tails", tails.contenders_of(measured, 64, None))
    assert rates == [("sluicegate", 0), ("sluicegate", 7e5), ("echo", 7e3)]


# ------------------------------------------------------------------------ disturbed runs


def steal(monkeypatch, *shares):
    remaining = list(shares)
    monkeypatch.setattr(suites.machine, "cpu_ticks", lambda: (0, 0))
    monkeypatch.setattr(suites.machine, "steal_percent", lambda *_: remaining.pop(0))


def test_a_run_that_others_disturb_is_repeated(tmp_path, monkeypatch):
    steal(monkeypatch, 0.3, 0.0, 0.1)
    measured = suite(tmp_path, rounds=2)
    measured.interleave("tails", [tails.quiet("a", OURS, lambda: {"unit": "items", "per_s": 1})])
    lines = records.load(tmp_path)
    assert [(line["round"], line.get("disturbed", False)) for line in lines] == [
        (1, True), (1, False), (2, False)]


def test_it_is_repeated_only_so_often(tmp_path, monkeypatch):
    steal(monkeypatch, *[5.0] * suites.ATTEMPTS)
    measured = suite(tmp_path, rounds=1)
    measured.interleave("tails", [tails.quiet("a", OURS, lambda: {"unit": "items", "per_s": 1})])
    assert [line["disturbed"] for line in records.load(tmp_path)] == [True] * suites.ATTEMPTS


def test_other_rungs_keep_such_runs(tmp_path, monkeypatch):
    steal(monkeypatch, 5.0)
    measured = suite(tmp_path, rounds=1)
    measured.interleave("R4", [Contender("a", OURS, lambda: {"unit": "items", "per_s": 1})])
    assert [line.get("disturbed") for line in records.load(tmp_path)] == [None]


def test_a_disturbed_run_does_not_count_beside_others():
    lines = runs(CASE, OURS, 9000.0, disturbed=True) + runs(CASE, OURS, 500.0)
    assert records.spread(records.latest(lines), CASE, OURS, "latency_us.p99").values == [500]
    alone = runs(CASE, OURS, 9000.0, disturbed=True)
    assert records.latest(alone) == alone
    assert "doubtful" in tails.notes(alone)[0]


# ------------------------------------------------------------------------- aims and table


def test_p99_is_held_against_a_millisecond_redis_and_the_echo():
    lines = (runs(CASE, OURS, 900.0) + runs(CASE, tails.REDIS, 800.0)
             + runs(CASE, tails.ECHO, 650.0))
    assert aims(lines) == {"": "met", "against Redis's": "MISSED", "above the echo's": "met"}


def test_above_the_echo_is_a_difference():
    lines = runs(CASE, OURS, 951.0) + runs(CASE, tails.ECHO, 650.0)
    assert aims(lines) == {"": "met", "against Redis's": "no peer", "above the echo's": "MISSED"}


def test_the_summary_has_tails_page_faults_and_aims():
    lines = (runs(tails.closed_case(64), OURS, 1.0) + runs(CASE, OURS, 400.0, 500.0, 900.0)
             + runs(CASE, tails.ECHO, 300.0, kept_up=False))
    text = table.summary(lines)
    assert "## Targets" not in text  # the aims stand beside the tails
    tail = text.partition("## Tails")[2]
    assert "500 (400 to 900)" in tail and "1,000 (800 to 1,800)" in tail
    assert "minor faults" in tail and "<= echo + 300.00 us" in tail
    assert "closed loop" not in tail
    assert f"{CASE}, echo: behind its schedule" in tail


# ---------------------------------------------------------------------------- what is read


def line(**fields):
    return json.dumps({"limit": "redis", "requests_per_s": 7e5, "frames_per_s": 2734,
                       "requests": 1400000, "bytes_out": 200, "bytes_in": 100, "seconds": 2.0,
                       "latency_us": {"p50": 1.0, "p99": 2.0, "p999": 3.0, "max": 4.0},
                       "open_loop": {"rate": 7e5, "behind_s": 0.0, "kept_up": True,
                                     "send_delay_us": {"p99": 5.0, "p999": 6.0, "max": 7.0}},
                       "client_cpu_s": 2.0, "server_cpu_s": 1.0,
                       "server_page_faults": {"minor": 5, "major": 1},
                       "parameters": {"connections": 4, "batch": 256, "window": 16, "keys": 1000,
                                      "key_bytes": 15}, **fields})


def test_a_redis_load_is_read():
    figures = parse.loopback_limits(line())
    assert (figures["unit"], figures["per_s"], figures["asked_per_s"]) == ("requests", 7e5, 7e5)
    assert figures["latency_us"]["p999"] == 3
    assert figures["send_delay_us"]["p99"] == 5
    assert figures["page_faults"] == {"minor": 5, "major": 1}
    assert (figures["kept_up"], figures["bytes_in_per_s"], figures["keys"]) == (True, 50, 1000)


def test_a_closed_loop_has_no_schedule():
    figures = parse.loopback_limits(line(open_loop=None))
    assert "kept_up" not in figures and figures["latency_us"]["p50"] == 1


# --------------------------------------------------------------------------------- events


def test_every_event_runs_at_the_same_rate_without_and_with_it(tmp_path, monkeypatch):
    asked(monkeypatch)
    happened = []
    monkeypatch.setattr(events, "run", lambda _, event, happens, batch, rate: happened.append(
        (event.name, happens, batch, rate)) or {"per_s": 1, "unit": "items"})
    measured = suite(tmp_path, rounds=1)
    measured.interleave("tails-events", tails.events_of(measured, 256))
    assert happened == [(event.name, happens, 256, 700_000) for event in events.EVENTS
                        for happens in (False, True)]


def test_an_event_may_double_the_p99():
    case = tails.event_case(events.EVENTS[0], 64)
    lines = runs(case, tails.WITHOUT, 1000.0) + runs(case, OURS, 1999.0)
    row, = targets.rows(lines)
    assert (row.ratio, row.verdict) == (1.999, "met")
    row, = targets.rows(lines + runs(case, OURS, 9000.0, 9000.0))
    assert row.verdict == "MISSED"


def served(monkeypatch, values):
    """An event's server whose metric has these values, one after the other."""
    remaining = list(values)
    monkeypatch.setattr(events, "metric", lambda *_: remaining.pop(0))
    return Server(1, 2)


def test_an_event_that_did_not_happen_is_no_result(monkeypatch):
    with events.counted(served(monkeypatch, [5, 105]), "keys", 100) as figures:
        pass
    assert figures == {"happened": 100}
    with pytest.raises(Trouble, match="99 .* instead of 100"):
        with events.counted(served(monkeypatch, [5, 104]), "keys", 100):
            pass


def test_the_load_runs_while_the_event_happens(tmp_path, monkeypatch):
    happening = []

    @contextlib.contextmanager
    def context(name, *_):
        happening.append(name)
        yield {"happened": 7} if name == "event" else Server(1, 2)
        happening.remove(name)

    monkeypatch.setattr(events.loads, "bench_of",
                        lambda *_: {"during": list(happening), "flags": _[2:]})
    event = events.Event("x", functools.partial(context, "server"),
                         functools.partial(context, "event"), ("--new-keys=5",))
    found = events.run(suite(tmp_path), event, True, 64, 1000)
    assert found["during"] == ["server", "event"] and found["happened"] == 7
    assert {"--batch=64", "--rate=1000", "--new-keys=5"} <= set(found["flags"])
    assert events.run(suite(tmp_path), event, False, 64, 1000)["during"] == ["server"]


def test_what_fails_beside_the_load_is_reported():
    def fail(_):
        raise ConnectionResetError("gone")

    with pytest.raises(Trouble, match="gone"):
        with events.beside(fail):
            pass


def test_work_beside_the_load_ends_with_it():
    done = []
    with events.beside(lambda ended: done.append(ended.wait(60))):
        assert not done
    assert done == [True]


def test_the_rules_are_as_many_as_promised():
    keys = json.loads(events.rules_text(77))["keys"]
    assert len(keys) == events.RULES
    assert len({key["key_pattern"] for key in keys}) == events.RULES
    assert keys[-1] == {"key_pattern": ".*", "key_pattern_is_regex": True,
                        "max_requests_per_window": 77}


def answering(body, sent=1):
    """A server that answers one request, `sent` of the body, and closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        with listener, listener.accept()[0] as peer:
            peer.recv(1 << 16)
            peer.sendall(body * sent)

    threading.Thread(target=answer, daemon=True).start()
    return Server(1, listener.getsockname()[1])


def test_an_answer_is_read_to_its_end():
    assert events.read_debug(answering(b"x" * 1000, 5000), threading.Event())


def test_an_answer_that_outlasts_the_load_is_left():
    ended = threading.Event()
    ended.set()
    assert not events.read_debug(answering(b"x"), ended)


def test_a_metric_is_summed_over_the_shards(monkeypatch):
    body = (b'# HELP keys of\nkeys{shard="0"} 5\nkeys{shard="1"} 6e1\nkeys_total 9\nother 1\n')
    monkeypatch.setattr(events.urllib.request, "urlopen", lambda *_, **__: io.BytesIO(body))
    assert events.metric(Server(1, 2), "keys") == 65
    assert events.metric(Server(1, 2), "other") == 1
