"""The configuration file changes while the server runs.
Method: the tests write the file in place, replace it, or swap links to it, and poll the limits of
keys through REST."""

import json
import os
import threading
import time

import pytest

from conftest import LONG_WINDOW, ONE_ENGINE
from http_peer import HttpPeer, ask, metrics, request, totals
from server_process import eventually


def rules_text(*entries):
    return json.dumps({"keys": list(entries)})


def limit_of_all(limit, **fields):
    return rules_text({"key_pattern": ".*", "key_pattern_is_regex": True,
                       "max_requests_per_window": limit, **fields})


def config_of(server, key):
    return json.loads(ask(server, "GET", f"/debug/{key}").body)["Config"]


def limit_of(server, key):
    return config_of(server, key)["MaxRequestsPerWindow"]


def write_in_place(path, text):
    path.write_text(text)


def write_slowly(path, text):
    with path.open("w") as file:
        for byte in text:
            file.write(byte)
            file.flush()
            time.sleep(0.0005)


def rename_over(path, text):
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.rename(fresh, path)


def remove_and_make(path, text):
    path.unlink()
    path.write_text(text)


def make_slowly(path, text):
    path.unlink()
    write_slowly(path, text)


@pytest.fixture
def config_file(tmp_path):
    path = tmp_path / "limits.json"
    path.write_text(limit_of_all(10))
    return path


@pytest.fixture
def reloading(start_server, config_file):
    server = start_server("--config-file", str(config_file), *LONG_WINDOW)
    server.config_file = config_file
    return server


KEYS = [f"key{number}" for number in range(12)]  # of every shard


def ask_all(server):
    with HttpPeer(server) as peer:
        return [peer.ask("POST", f"/rate/{key}").status for key in KEYS]


def refused_log(server):
    return [line for line in server.log if "refused" in line["message"]]


# ------------------------------------------------------------------------------ ways to change it

@pytest.mark.parametrize("change", [write_in_place, write_slowly, rename_over, remove_and_make,
                                    make_slowly])
def test_a_change_reaches_every_shard(reloading, change):
    assert ask_all(reloading) == [200] * len(KEYS)
    for limit in (20, 30):
        change(reloading.config_file, limit_of_all(limit))
        eventually(lambda: all(limit_of(reloading, key) == limit for key in KEYS), "the new limit")
    assert ask_all(reloading) == [200] * len(KEYS)
    assert refused_log(reloading) == []
    for shard in range(reloading.shards):
        assert metrics(reloading)[f'sluicegate_rules_adopted_total{{shard="{shard}"}}'] == 2


def swap_links(path, text):
    """As Kubernetes does it for a ConfigMap."""
    folder = path.parent / f"..{time.monotonic_ns()}"
    folder.mkdir()
    (folder / path.name).write_text(text)
    (path.parent / "..data_tmp").symlink_to(folder.name)
    os.rename(path.parent / "..data_tmp", path.parent / "..data")


@pytest.fixture
def config_map(start_server, tmp_path):
    path = tmp_path / "limits.json"
    swap_links(path, limit_of_all(10))
    path.symlink_to("..data/limits.json")
    server = start_server("--config-file", str(path), *LONG_WINDOW)
    server.config_file = path
    return server


@pytest.mark.parametrize("change", [write_in_place, rename_over, swap_links])
def test_inotify_reports_a_change_before_the_poll(config_map, change):
    """The poll takes at least two seconds. A slow machine may miss it once, but not always."""
    ask_all(config_map)
    took = []
    for limit in (20, 30, 40):
        started = time.monotonic()
        change(config_map.config_file, limit_of_all(limit))
        eventually(lambda: all(limit_of(config_map, key) == limit for key in KEYS), "the limit")
        took.append(time.monotonic() - started)
        if change is rename_over:  # the rename replaced the link by a file
            config_map.config_file.unlink()
            config_map.config_file.symlink_to("..data/limits.json")
            eventually(lambda: limit_of(config_map, KEYS[0]) == 10, "the old link's")
    assert min(took) < 1.5, took


def test_notices_links_swapped_as_kubernetes_does(config_map):
    server = config_map
    ask_all(server)
    for number in (2, 3):
        swap_links(server.config_file, limit_of_all(10 * number))
        eventually(lambda: all(limit_of(server, key) == 10 * number for key in KEYS),
                   "the new limit")


def test_notices_a_write_to_the_target_of_a_link(start_server, tmp_path):
    (tmp_path / "there").mkdir()
    real = tmp_path / "there" / "real.json"
    real.write_text(limit_of_all(10))
    (tmp_path / "limits.json").symlink_to(real)
    server = start_server("--config-file", str(tmp_path / "limits.json"), *LONG_WINDOW)
    ask_all(server)
    real.write_text(limit_of_all(20))
    eventually(lambda: limit_of(server, KEYS[0]) == 20, "the new limit")


# ------------------------------------------------------------------------------------- bad files

@pytest.mark.parametrize("text, cause", [
    ("{", "not JSON"), (rules_text({"key_pattern": "a", "window_millis": 1}), "window_millis")])
def test_a_bad_file_changes_nothing_and_is_logged(reloading, text, cause):
    ask_all(reloading)
    reloading.config_file.write_text(text)
    eventually(lambda: refused_log(reloading), "it is refused")
    line = refused_log(reloading)[0]
    assert line["level"] == "ERROR" and cause in str(line["complaints"])
    assert totals(reloading)["sluicegate_rules_refused_total"] == 1
    assert limit_of(reloading, KEYS[0]) == 10
    reloading.config_file.write_text(limit_of_all(20))
    eventually(lambda: limit_of(reloading, KEYS[0]) == 20, "a good one is taken")


def test_a_deleted_file_changes_nothing(reloading):
    ask_all(reloading)
    reloading.config_file.unlink()
    eventually(lambda: refused_log(reloading), "the refusal is logged")
    assert limit_of(reloading, KEYS[0]) == 10
    reloading.config_file.write_text(limit_of_all(20))
    eventually(lambda: limit_of(reloading, KEYS[0]) == 20, "it is back")


# ------------------------------------------------------------------------------ effects on keys

def test_keys_with_unchanged_limits_keep_their_overrides(reloading):
    assert ask(reloading, "POST", "/rate/mine?maxRequests=5").status == 200
    assert ask(reloading, "POST", "/rate/theirs?maxRequests=5").status == 200
    reloading.config_file.write_text(rules_text(
        {"key_pattern": ".*", "key_pattern_is_regex": True, "max_requests_per_window": 10},
        {"key_pattern": "theirs", "max_requests_per_window": 20}))
    eventually(lambda: limit_of(reloading, "theirs") == 20, "the new limit")
    assert limit_of(reloading, "mine") == 5


def test_counts_survive_a_change(reloading):
    for _ in range(10):
        assert ask(reloading, "POST", "/rate/k").status == 200
    assert ask(reloading, "POST", "/rate/k").status == 429
    reloading.config_file.write_text(limit_of_all(12))
    eventually(lambda: limit_of(reloading, "k") == 12, "the new limit")
    assert [ask(reloading, "POST", "/rate/k").status for _ in range(3)] == [200, 200, 429]


def test_serves_waiters_that_fit_the_new_limit(reloading):
    waiting = []
    for key in KEYS:
        assert ask(reloading, "POST", f"/rate/{key}?cost=10").status == 200
        waiting.append(HttpPeer(reloading))
        waiting[-1].send(request("POST", f"/rate/{key}?canWait=true"))
    eventually(lambda: totals(reloading)["sluicegate_waiters"] == len(KEYS), "all wait")
    reloading.config_file.write_text(limit_of_all(11))
    assert [peer.read().status for peer in waiting] == [200] * len(KEYS)
    for peer in waiting:
        peer.close()


def test_a_pipe_in_the_files_place_blocks_no_thread(reloading):
    reloading.config_file.unlink()
    os.mkfifo(reloading.config_file)
    eventually(lambda: refused_log(reloading), "it is refused")
    assert "not a regular file" in refused_log(reloading)[0]["complaints"][0]
    rename_over(reloading.config_file, limit_of_all(30))
    ask_all(reloading)
    eventually(lambda: limit_of(reloading, KEYS[0]) == 30, "the new limit")


def test_answers_waiters_that_can_never_fit(reloading):
    assert ask(reloading, "POST", "/rate/k?cost=10").status == 200
    with HttpPeer(reloading) as peer:
        peer.send(request("POST", "/rate/k?canWait=true&cost=8"))
        eventually(lambda: totals(reloading)["sluicegate_waiters"] == 1, "it waits")
        reloading.config_file.write_text(limit_of_all(5))
        answer = peer.read()
        assert (answer.status, answer.body) == (400, b"cost exceeds maxRequests")
    assert reloading.wait_for_message("cost exceeds maxRequests")["key"] == "k"


def test_a_window_of_another_length_begins_at_the_change(reloading):
    assert ask(reloading, "POST", "/rate/k?cost=10").status == 200
    with HttpPeer(reloading) as peer:
        peer.send(request("POST", "/rate/k?canWait=true"))
        eventually(lambda: totals(reloading)["sluicegate_waiters"] == 1, "it waits")
        reloading.config_file.write_text(limit_of_all(10, window_millis=100))
        assert peer.read().status == 200  # within the new window, not within the old hour
    assert config_of(reloading, "k")["WindowMillis"] == 100


def test_no_request_is_lost_while_rules_change(config_map):
    reloading = config_map
    over = threading.Event()
    failures = []

    def client(number):
        with HttpPeer(reloading) as peer:
            asked = 0
            while not over.is_set() or asked < 50:
                peer.send(b"".join(request("POST", f"/rate/{key}?canWait={number % 2 == 0}"
                                           f"&maxWaitMillis=50") for key in KEYS))
                answers = [peer.read().status for _ in KEYS]
                if set(answers) - {200, 429}:
                    failures.append(answers)
                asked += 1

    clients = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for each in clients:
        each.start()
    for turn in range(20):
        # The first file renamed over the link removes it, so swaps come before.
        change = swap_links if turn < 10 else [write_in_place, rename_over][turn % 2]
        change(reloading.config_file, limit_of_all(10 + turn, window_millis=20 + 10 * (turn % 3)))
        time.sleep(0.05)
    over.set()
    for each in clients:
        each.join(60)
    assert not any(each.is_alive() for each in clients) and failures == []
    eventually(lambda: ask(reloading, "POST", "/rate/k").status == 200
               and limit_of(reloading, "k") == 29, "the last one holds")


# --------------------------------------------------------------------------------------- profiles

def profile_text(limit):
    return json.dumps({"date": "2026-02", "subjects": [{"subject": "m", "limits": [
        {"name": "rpm", "metric": "requests", "amount": limit, "period_ms": 60_000}]}]})


def quotas_text(*profiles):
    return json.dumps({"quotas": {"profiles": list(profiles)}})


@pytest.fixture
def with_profile(start_server, tmp_path):
    """A server, and the profile that its file names, in a folder of its own."""
    (tmp_path / "profiles").mkdir()
    profile = tmp_path / "profiles" / "mine.json"
    profile.write_text(profile_text(1))
    path = tmp_path / "limits.json"
    path.write_text(quotas_text("mine"))
    server = start_server("--config-file", str(path), "--profiles", str(profile.parent))
    server.config_file = path
    return server, profile


def reloads(server):
    return server.messages().count("configuration file reloaded")


@pytest.mark.parametrize("change", [write_in_place, write_slowly, rename_over, remove_and_make])
def test_rereads_a_changed_profile(with_profile, change):
    server, profile = with_profile
    for count in (1, 2):
        change(profile, profile_text(10 * count))
        eventually(lambda: reloads(server) == count, "it is read")
        for shard in range(server.shards):  # a shard that has not adopted the first skips it
            eventually(lambda: metrics(server)[f'sluicegate_rules_adopted_total{{shard="{shard}"}}']
                       == count, "every shard has it")
    assert refused_log(server) == []


def test_a_bad_profile_changes_nothing_and_is_logged(with_profile):
    server, profile = with_profile
    profile.write_text(profile_text(-1))
    eventually(lambda: refused_log(server), "it is refused")
    complaint, = refused_log(server)[0]["complaints"]
    assert complaint.startswith(
        'quotas.profiles[0] ("mine"), subjects[0] ("m"), limits[0] ("rpm"), amount: ')
    profile.write_text(profile_text(5))
    eventually(lambda: reloads(server) == 1, "a good one is taken")


def test_watches_a_profile_named_later(with_profile, tmp_path):
    server, _ = with_profile
    other = tmp_path / "other.json"
    server.config_file.write_text(quotas_text("mine", "./other.json"))
    eventually(lambda: refused_log(server), "it is not there")
    other.write_text(profile_text(7))
    eventually(lambda: reloads(server) == 1, "it has come")
    rename_over(other, profile_text(8))
    eventually(lambda: reloads(server) == 2, "it has changed")


@pytest.mark.parametrize("engine", ONE_ENGINE, indirect=True)
def test_what_lasts_is_reported_once(start_server, tmp_path):
    """A poll every two seconds finds it again."""
    def become_a_folder(path):
        path.unlink()
        path.mkdir()

    def name_a_missing_profile(path):
        path.write_text(quotas_text("./none.json"))

    def change_well(path):
        path.write_text(limit_of_all(20))

    servers = []
    for change in (lambda path: path.write_text("{"), lambda path: path.unlink(), become_a_folder,
                   name_a_missing_profile, change_well):
        path = tmp_path / f"{len(servers)}.json"
        path.write_text(limit_of_all(10))
        servers.append(start_server("--config-file", str(path)))
        change(path)
    *refusing, reloaded = servers
    for server in refusing:
        eventually(lambda: refused_log(server), "it is refused")
    eventually(lambda: reloads(reloaded), "it is read")
    time.sleep(7)  # three polls
    for server in refusing:
        assert len(refused_log(server)) == totals(server)["sluicegate_rules_refused_total"] == 1
    assert reloads(reloaded) == 1


# --------------------------------------------------------------------------------- large files

def subjects_text(count, amount):
    limits = [{"name": "tpm", "metric": "tokens", "amount": amount, "period_ms": 60_000}]
    return json.dumps({"quotas": {"subjects": [
        {"subject": f"subject{number}", "limits": limits} for number in range(count)]}})


def subjects_listed(peer):
    names, cursor = [], ""
    while cursor is not None:
        page = peer.ask("GET", f"/v1/subjects?limit=256{cursor and f'&cursor={cursor}'}").json()
        names += [subject["name"] for subject in page["subjects"]]
        cursor = page["cursor"]
    return names


def amount_of(peer, subject):
    limits = peer.ask("GET", f"/v1/subjects/{subject}").json().get("limits")
    return limits[0]["amount"] if limits else None


def test_many_subjects_apply_at_once_and_are_listed_soon(reloading):
    """The server adopts them in slices; a few thousand take many."""
    count = 5_000
    with HttpPeer(reloading) as peer:
        for amount in (10, 20):
            rename_over(reloading.config_file, subjects_text(count, amount))
            eventually(lambda: amount_of(peer, f"subject{count - 1}") == amount, "the new quota")
            eventually(lambda: len(subjects_listed(peer)) == count, "all of them")
        rename_over(reloading.config_file, subjects_text(3, 30))
        eventually(lambda: sorted(subjects_listed(peer)) == [f"subject{n}" for n in range(3)],
                   "removed subjects are no longer listed")
    assert refused_log(reloading) == []


def test_many_subjects_are_all_listed_when_the_server_listens(start_server, tmp_path):
    path = tmp_path / "limits.json"
    path.write_text(subjects_text(5_000, 10))
    with HttpPeer(start_server("--config-file", str(path))) as peer:
        assert len(set(subjects_listed(peer))) == 5_000
