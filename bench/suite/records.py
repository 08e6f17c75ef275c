"""A line of JSON for every run, and statistics over many of them."""

import json
import statistics

FILE = "runs.jsonl"


class Records:
    """Appends; a folder collects the runs of many days."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE

    def append(self, record):
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def load(folder):
    """Every line of a folder. A last line that was cut short by a crash is left out."""
    path = folder / FILE
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def latest(records):
    """The runs of each case's last measurement only: no median mixes days."""
    last = {}
    for record in records:
        last[record["case"]] = max(last.get(record["case"], ""), record["measurement"])
    return undisturbed([record for record in records
                        if record["measurement"] == last[record["case"]]])


def undisturbed(records):
    """Without marked runs, unless a contender of a case has no others."""
    sound = {(record["case"], record["who"]) for record in records
             if not record.get("disturbed")}
    return [record for record in records if not record.get("disturbed")
            or (record["case"], record["who"]) not in sound]


class Spread:
    """The values of one figure over the rounds."""

    def __init__(self, values):
        self.values = list(values)
        self.median = statistics.median(self.values)
        self.low, self.high = min(self.values), max(self.values)


def figure(record, name):
    """A figure, or one of a group: latency_us.p50."""
    value = record
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def spread(records, case, who, name):
    """A figure's spread over a case's rounds, or None where there is none."""
    values = [figure(record, name) for record in records
              if record["case"] == case and record["who"] == who]
    values = [value for value in values if value is not None]
    return Spread(values) if values else None


def cases(records):
    """(case, who) in the order in which they were first run."""
    return list(dict.fromkeys((record["case"], record["who"]) for record in records))
