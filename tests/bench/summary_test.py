"""Runs become medians, rows with a verdict, and plots. Method: lines of runs made by hand."""

import contextlib
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from suite import machine, plots, records, rungs, shards, table, targets  # noqa: E402
from suite.machine import Trouble  # noqa: E402
from suite.suite import BEFORE, OURS, Contender, Suite  # noqa: E402

BASE = {"measurement": "2026-01-01T00:00:00", "rung": "R4", "round": 1, "unit": "decisions",
        "steal_percent": 0.0, "commit": "abc", "kernel": "6.1", "cpu": "a CPU", "cores": 2}


def runs(case, who, *rates, **figures):
    return [{**BASE, "case": case, "who": who, "round": number, "per_s": rate, **figures}
            for number, rate in enumerate(rates, 1)]


KEYED = rungs.keyed_case(1_000_000)


def row_of(lines, what):
    return next(row for row in targets.rows(lines) if row.target.what == what)


# ------------------------------------------------------------------------------- records


def test_lines_are_read_back_and_a_torn_one_left_out(tmp_path):
    written = records.Records(tmp_path / "new")
    written.append({"case": "a"})
    written.append({"case": "b"})
    with written.path.open("a") as file:
        file.write('{"case": "tor')
    assert records.load(tmp_path / "new") == [{"case": "a"}, {"case": "b"}]


def test_only_the_last_measurement_of_a_case_counts():
    old, new = runs("a", OURS, 1), runs("a", OURS, 2, measurement="2026-02-01T00:00:00")
    other = runs("b", OURS, 3)
    assert records.latest(old + new + other) == new + other


def test_a_spread_is_the_median_and_both_ends():
    values = records.spread(runs("a", OURS, 5, 1, 3), "a", OURS, "per_s")
    assert (values.median, values.low, values.high) == (3, 1, 5)
    assert records.spread(runs("a", OURS, 5), "a", "redis", "per_s") is None


def test_a_figure_of_a_group_is_found():
    lines = runs("a", OURS, 5, latency_us={"p50": 7})
    assert records.spread(lines, "a", OURS, "latency_us.p50").median == 7
    assert records.spread(lines, "a", OURS, "latency_us.p99") is None
    assert records.spread(lines, "a", OURS, "per_s.p99") is None


# ------------------------------------------------------------------------------- targets


def test_a_rate_is_held_against_its_bound():
    assert row_of(runs(KEYED, OURS, 29e6, 31e6, 32e6),
                  "keyed, batch 256, 1 M keys").verdict == "met"
    assert row_of(runs(KEYED, OURS, 29e6), "keyed, batch 256, 1 M keys").verdict == "MISSED"


def test_a_ratio_is_of_medians():
    lines = runs(KEYED, OURS, 20e6, 30e6, 90e6) + runs(KEYED, "redis", 1e6, 1e6, 5e6)
    row = row_of(lines, "keyed against Redis INCR -P 64")
    assert (row.ratio, row.verdict) == (30, "met")


def test_a_peer_that_did_not_run_leaves_it_open():
    row = row_of(runs(KEYED, OURS, 20e6), "keyed against Redis INCR -P 64")
    assert (row.ratio, row.verdict) == (None, "no peer")


def test_less_is_better_where_a_bound_is_a_most():
    lines = (runs(rungs.REST_CASE, OURS, 1, server_ns_each=8000.0)
             + runs(rungs.REST_CASE, "nginx", 1, server_ns_each=10000.0))
    row = row_of(lines, "REST, server CPU per request, against nginx")
    assert (row.ratio, row.verdict, row.ours.median) == (0.8, "met", 8.0)


def test_http_2_is_compared_by_cpu_time_and_rate():
    lines = (runs(rungs.HTTP2_CASE, OURS, 3e5, server_ns_each=2000.0)
             + runs(rungs.HTTP2_CASE, "nginx", 1e5, server_ns_each=4000.0)
             + runs(rungs.HTTP2_CASE, "gocc", 2e4, server_ns_each=60000.0))
    name = "HTTP/2, 10 x 100 streams"
    assert [row_of(lines, f"{name}, {what}").verdict for what in
            ("server CPU per request, against nginx", "server CPU per request, against gocc",
             "against gocc")] == ["MISSED", "met", "met"]


def test_bytes_are_compared_with_the_rate_of_raw_bytes():
    lines = (runs(rungs.RAW_CASE, OURS, 1e6, bytes_out_per_s=1e8)
             + runs(rungs.RAW_CASE, "raw loopback", 1e9, unit="bytes"))
    row = row_of(lines, "request bytes against raw loopback")
    assert (row.ratio, row.verdict) == (0.1, "MISSED")


def test_every_target_compares_a_case_of_its_own_name():
    assert len({target.what for target in targets.TARGETS}) == len(targets.TARGETS)


@pytest.mark.parametrize("figures, side", [
    ({"server_busy": 0.97, "client_busy": 0.99}, "server"),
    ({"server_busy": 0.5, "client_busy": 0.96}, "client"),
    ({"server_busy": 0.5, "client_busy": 0.5}, "neither"),
    ({"server_busy": 0.5, "client_busy": 0.5, "kept_up": False}, "behind its schedule"),
    ({"server_busy": 0.5, "client_busy": 1.0, "kept_up": True}, "neither"),
    ({}, "")])
def test_the_side_that_was_busy_is_the_bottleneck(figures, side):
    assert targets.bottleneck(runs("a", OURS, 1, **figures), "a", OURS) == side


# --------------------------------------------------------------------------------- table


def test_the_summary_has_targets_cases_and_what_was_left_out():
    lines = (runs(KEYED, OURS, 31e6, 30e6, 32e6, allowed_percent=100.0)
             + runs(KEYED, "redis", 1e6, steal_percent=5.0))
    text = table.summary(lines, ["gocc is left out: why"])
    assert "31.00 M/s (30.00 M/s to 32.00 M/s)" in text
    assert "| redis: 1.00 M/s | 31.00 | >= 25 x" in text
    assert "31.000 M (30.000 M to 32.000 M)" in text
    assert "1 of 4 runs lost more than 2 %" in text
    assert "commit abc" in text
    assert text.endswith("- gocc is left out: why\n")


def test_cases_without_a_target_make_a_summary_too():
    text = table.summary(runs("something new", OURS, 1500))
    assert "## Targets" not in text
    assert "1,500" in text


def test_price_of_another_shard_counts_only_its_entries():
    case = shards.Load(2, 64, {}).case
    lines = (runs(case, shards.OTHER, 1, server_ns_each=400.0)
             + runs(case, shards.ROUTED, 1, server_ns_each=100.0)
             + runs(shards.LONE_CASE, shards.TWO, 1, latency_us={"p50": 80.0})
             + runs(shards.WAKE_CASE, shards.WAKE, 1, latency_us={"p50": 16.0}))
    assert table.other_shard_lines(lines).splitlines() == [
        "- shards: 2 shards, by key, batch 64: an entry for another shard costs 300 ns more "
        "server CPU.",
        "- The wake of a sleeping core is 20% of a lone request for another shard's key."]
    assert table.other_shard_lines(runs(KEYED, OURS, 1)) == ""


def test_the_server_before_is_compared_by_medians():
    lines = (runs(KEYED, OURS, 30e6, 33e6, 60e6, server_ns_each=20.0)
             + runs(KEYED, OURS + BEFORE, 30e6, 30e6, 90e6, server_ns_each=25.0,
                    against="old/sluicegate")
             + runs(KEYED, "redis", 1e6))
    assert table.before_table(lines).splitlines()[2:] == [
        f"| {KEYED} | sluicegate | 0.80            | 1.10 |     |     |"]
    assert "## Times the server before (old/sluicegate)" in table.summary(lines)
    assert table.before_table(runs(KEYED, OURS, 1)) == ""


def test_columns_line_up():
    lines = table.markdown(["a", "b"], [["long", "x"], ["y", "longer"]]).splitlines()
    assert len({len(line) for line in lines}) == 1


# --------------------------------------------------------------------------------- plots


def test_series_are_in_the_order_of_their_numbers():
    lines = (runs(rungs.batch_case(256), OURS, 9) + runs(rungs.batch_case(4), OURS, 1, 3)
             + runs(rungs.batch_case(4), "redis", 7) + runs(rungs.PIPELINED_CASE, OURS, 5))
    found = plots.series(lines, r"R4 batch (\d+)")
    assert [(x, values.median) for x, values in found[OURS]] == [(4, 2), (256, 9)]
    assert list(found) == [OURS, "redis"]


def test_numbers_of_keys_are_read_with_their_commas():
    assert [x for x, _ in plots.series(runs(KEYED, OURS, 1), r"R4 keyed 256, ([\d,]+) keys")[
        OURS]] == [1_000_000]


def open_loop_runs():
    return [line for share in rungs.LOAD_SHARES
            for line in runs(rungs.open_loop_case(64, share), OURS, share * 1e5, share * 1e5,
                             latency_us={"p50": 10.0, "p99": 5.0 * share, "p999": 900.0})]


def test_latency_stands_over_the_share_of_the_load():
    lines = plots.load_series(open_loop_runs(), 64)
    assert [(x, values.median) for x, values in lines["p99"]] == [
        (50, 250), (70, 350), (90, 450)]
    assert plots.load_series(open_loop_runs(), 256) == {}


def write(folder, lines):
    written = records.Records(folder)
    for line in lines:
        written.append(line)


def test_every_plot_is_drawn_twice(tmp_path):
    pytest.importorskip("matplotlib")
    write(tmp_path, runs(rungs.batch_case(4), OURS, 1e6, 2e6) + runs(KEYED, OURS, 1e6)
          + open_loop_runs())
    plots.draw(tmp_path)
    for name in ("throughput_by_batch", "throughput_by_keys", "latency_by_load"):
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_a_line_names_the_cure(tmp_path, monkeypatch):
    write(tmp_path, runs(KEYED, OURS, 1e6))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Trouble, match="tools/setup"):
        plots.draw(tmp_path)


def test_a_folder_without_runs_is_refused_in_one_line(tmp_path):
    done = subprocess.run([sys.executable, ROOT / "bench/ladder", "--plots-only", tmp_path],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: there is no runs.jsonl")
    assert done.stderr.count("\n") == 1


def test_a_server_before_that_is_missing_is_refused_in_one_line(tmp_path):
    done = subprocess.run([sys.executable, ROOT / "bench/ladder", "idle", "--against",
                           tmp_path / "none"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: no server at")
    assert "--against PATH" in done.stderr
    assert done.stderr.count("\n") == 1


# --------------------------------------------------------------------------------- suite


def suite(folder, **settings):
    return Suite(server=pathlib.Path("sluicegate"), build=folder, scratch=folder,
                 records=records.Records(folder), facts=dict(BASE), **settings)


def test_contenders_alternate(tmp_path):
    turns = []

    def contender(who):
        return Contender("a", who, lambda: turns.append(who) or {"unit": "items", "per_s": 1})

    suite(tmp_path, rounds=2).interleave("R4", [contender("x"), contender("y")])
    assert turns == ["x", "y", "x", "y"]
    assert [line["who"] for line in records.load(tmp_path)] == turns


def test_a_peer_that_fails_is_left_out_of_the_rest(tmp_path):
    asked = []

    def fail():
        asked.append(1)
        raise Trouble("it is ill")

    measured = suite(tmp_path, rounds=3)
    measured.interleave("R4", [Contender("a", "redis", fail)])
    assert len(asked) == 1
    assert measured.left_out == ["redis is left out of the rest: it is ill"]


def test_a_failure_of_ours_ends_the_rung(tmp_path):
    def fail():
        raise Trouble("it is ill")

    with pytest.raises(Trouble):
        suite(tmp_path).interleave("R4", [Contender("a", OURS, fail)])


def test_the_server_before_runs_in_the_same_rounds(tmp_path):
    servers = []
    measured = suite(tmp_path, rounds=2, against=pathlib.Path("before"))

    def run(version, flag):
        servers.append(f"{version.server} {flag}")
        return {"unit": "items", "per_s": 1}

    measured.interleave("R4", measured.contend("a", OURS, run, "--handles"))
    assert servers == ["sluicegate --handles", "before --handles"] * 2
    assert [line["who"] for line in records.load(tmp_path)] == [OURS, OURS + BEFORE] * 2


def test_a_server_before_that_lacks_an_option_ends_nothing(tmp_path):
    def run(version):
        if version.server == pathlib.Path("before"):
            raise Trouble("unknown option")
        return {"unit": "items", "per_s": 1}

    measured = suite(tmp_path, rounds=2, against=pathlib.Path("before"))
    measured.interleave("R4", measured.contend("a", OURS, run))
    assert [line["who"] for line in records.load(tmp_path)] == [OURS, OURS]
    assert measured.left_out == [f"{OURS}{BEFORE} is left out of the rest: unknown option"]


def test_only_cases_with_the_given_text_run(tmp_path):
    measured = suite(tmp_path, rounds=1, cases="batch 64")
    measured.interleave("R4", [Contender(case, OURS, lambda: {"unit": "items", "per_s": 1})
                               for case in ("R4 batch 64", "R4 batch 256")])
    assert [line["case"] for line in records.load(tmp_path)] == ["R4 batch 64"]


def test_the_open_loop_runs_at_a_share_of_the_closed_one():
    figures = rungs.loads.open_loop(lambda flag: {"flag": flag}, 1e6, 70)
    assert figures == {"flag": "--rate=700000", "asked_per_s": 700_000, "load_percent": 70}


def test_an_open_loop_without_its_closed_one_measures_that_first(tmp_path, monkeypatch):
    asked = []

    def bench(_, *flags):
        asked.append(flags[-1])
        return {"per_s": 1e6}

    measured = suite(tmp_path)
    measured.bench_help = ""
    monkeypatch.setattr(rungs.loads, "own_bench", bench)
    assert rungs.Ceiling(measured, 64).open(50)["asked_per_s"] == 500_000
    assert asked == ["--batch=64", "--rate=500000"]


def test_names_missing_programs_with_their_option(tmp_path):
    measured = suite(tmp_path)
    measured.interleave("R2", [Contender("a", "snail", lambda: rungs.loads.snail(measured, 4))])
    assert "--snail-tests PATH" in measured.left_out[0]


def test_reports_unknown_options_of_the_load_tool_once(tmp_path):
    measured = suite(tmp_path)
    measured.bench_help = "--batch N"
    assert measured.knows("--batch")
    assert not measured.knows("--rate")
    assert not measured.knows("--rate")
    assert len(measured.left_out) == 1


def test_steal_is_a_share_of_the_time_between():
    assert machine.steal_percent((10, 1000), (20, 1200)) == 5
    assert machine.steal_percent((10, 1000), (10, 1000)) == 0
    stolen, everything = machine.cpu_ticks()
    assert 0 <= stolen <= everything


def test_facts_of_the_machine_are_plain(tmp_path):
    assert json.loads(json.dumps(machine.facts())).keys() == {"commit", "kernel", "cpu", "cores"}


# -------------------------------------------------------------------------------- shards


def between(load, **ns):
    """Runs of a load, by way, each with so much CPU time per decision."""
    return [line for way, each in ns.items()
            for line in runs(load.case, way, 1e6, server_ns_each=each)]


def test_ways_alternate_and_each_is_followed_by_the_server_before(tmp_path, monkeypatch):
    monkeypatch.setattr(Suite, "bench_help", "  --other-handle  ")
    contenders = shards.between(suite(tmp_path, against=pathlib.Path("before")))
    load = shards.Load(8, 64, {})
    assert [one.who for one in contenders if one.case == load.case] == [
        shards.ROUTED, shards.ROUTED + BEFORE, shards.MIXED, shards.MIXED + BEFORE]
    load = shards.Load(2, 256, {}, by_handle=True)
    assert [one.who for one in contenders if one.case == load.case][::2] == [
        shards.ROUTED, shards.MIXED, shards.OTHER, shards.HOLDING]


def test_ways_that_an_earlier_load_tool_lacks_are_left_out_for_it(tmp_path, monkeypatch):
    helps = {"sluicegate": "  --other-handle  ", "before": ""}
    monkeypatch.setattr(Suite, "bench_help", property(lambda one: helps[one.server.name]))
    contenders = shards.between(suite(tmp_path, against=pathlib.Path("before")))
    assert [one.who for one in contenders if one.who.startswith(shards.HOLDING)] == [
        shards.HOLDING]


def test_loads_have_cases_of_their_own():
    assert len({load.case for load in shards.LOADS}) == len(shards.LOADS)


def test_a_routed_load_has_a_connection_to_each_shard():
    assert "--connections=4" in shards.Load(2, 64, {}).flags
    assert "--connections=8" in shards.Load(8, 64, {}).flags
    assert "--handles" in shards.Load(2, 64, {}, by_handle=True).flags


def test_every_aim_between_shards_is_a_ratio_to_routed():
    load = shards.Load(2, 64, {})
    lines = between(load, **{shards.ROUTED: 50.0, shards.MIXED: 75.0, shards.OTHER: 90.0})
    found = {row.target.who: (row.ratio, row.verdict) for row in targets.rows(lines)}
    assert found == {shards.MIXED: (1.5, "met"), shards.OTHER: (1.8, "MISSED")}


def test_a_ratio_without_an_aim_has_no_verdict():
    load = shards.Load(2, 64, {}, by_handle=True)
    lines = between(load, **{shards.ROUTED: 10.0, shards.MIXED: 300.0})
    row, = targets.rows(lines)
    assert (row.ratio, row.verdict, row.target.bound_text()) == (30, "", "")


def test_handles_of_another_shards_keys_are_compared_to_their_texts():
    by_handle, by_key = shards.Load(2, 64, {}, by_handle=True), shards.Load(2, 64, {})
    lines = between(by_handle, **{shards.OTHER: 40.0}) + between(by_key, **{shards.OTHER: 50.0})
    found = [row for row in targets.rows(lines) if row.target.peer_case]
    assert [(row.ratio, row.verdict) for row in found] == [(0.8, "met")]


def test_rest_on_two_shards_is_compared_by_cpu_time_and_rate():
    case = shards.REST[0].case
    lines = (runs(case, shards.TWO, 0.6e6, server_ns_each=1500.0)
             + runs(case, shards.ONE, 1e6, server_ns_each=1000.0))
    assert [(row.ratio, row.verdict) for row in targets.rows(lines)] == [
        (1.5, "met"), (0.6, "MISSED")]


def test_rest_has_a_server_for_each_number_of_shards_and_version(tmp_path, monkeypatch):
    started = []

    @contextlib.contextmanager
    def server(version, shards):
        started.append((version.server.name, shards))
        yield started[-1]

    monkeypatch.setattr(shards.servers, "sluicegate", server)
    monkeypatch.setattr(shards, "need", lambda *_: None)
    monkeypatch.setattr(shards.loads, "wrk", lambda _, server, depth: (*server, depth))
    with contextlib.ExitStack() as stack:
        contenders = shards.rest(suite(tmp_path, against=pathlib.Path("before")), stack)
    assert [(one.who, one.run()) for one in contenders[:4]] == [
        (shards.TWO, ("sluicegate", 2, 16)), (shards.TWO + BEFORE, ("before", 2, 16)),
        (shards.ONE, ("sluicegate", 1, 16)), (shards.ONE + BEFORE, ("before", 1, 16))]


def test_the_open_loop_of_a_way_runs_at_a_share_of_its_own_rate(tmp_path, monkeypatch):
    monkeypatch.setattr(shards.loads, "own_bench", lambda _, *flags, **__: {
        "per_s": 1e6 if "--route" in flags else 4e5, "allowed_percent": 100, "flags": flags})
    routed, mixed = shards.open_loop(suite(tmp_path))[:2]
    assert (routed.who, routed.run()["asked_per_s"]) == (shards.ROUTED, 700_000)
    assert (mixed.who, mixed.run()["asked_per_s"]) == (shards.MIXED, 280_000)


def test_a_run_with_denied_requests_is_refused():
    with pytest.raises(Trouble, match="denied"):
        shards.approved({"allowed_percent": 99.9})
