"""The benchmarks of bench/micro still run, and find what they expect.

Method: each for a moment, with its smallest parameters; a benchmark that fails says so in its JSON
only, its exit status is 0. It does not check the figures.

    micro_test.py PROGRAM FILTER
"""

import json
import subprocess
import sys


def main():
    program, chosen = sys.argv[1:]
    run = subprocess.run([program, f"--benchmark_filter={chosen}", "--benchmark_min_time=0.001",
                          "--benchmark_format=json"],
                         check=False, stdout=subprocess.PIPE, text=True, timeout=100)
    if run.returncode != 0:
        sys.exit(f"exit status {run.returncode}")
    results = json.loads(run.stdout)["benchmarks"]
    if not results:
        sys.exit(f"no benchmark matches {chosen}")
    for result in results:
        print(result["name"], result.get("error_message", "ok"))
    sys.exit(1 if any(result.get("error_occurred") for result in results) else 0)


if __name__ == "__main__":
    main()
