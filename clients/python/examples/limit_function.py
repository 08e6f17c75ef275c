#!/usr/bin/env python3
"""A function that may run 3 times a minute for each of its first arguments.

The decorator checks its arguments when it is made: a mistake in the rate is no surprise at night.

    limit_function.py localhost:8081
"""

import argparse

import sluicegate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("server", help="address of the native port, as localhost:8081")
    with sluicegate.Client(parser.parse_args().server, on_failure="open") as client:
        @client.limited("mail:{recipient}", "3/minute")
        def send_mail(recipient: str, text: str) -> None:
            print(f"to {recipient}: {text}")

        for number in range(4):
            try:
                send_mail("ann", f"reminder {number}")
            except sluicegate.Denied as denied:
                print(f"{denied.limit} a minute are enough: later, in {denied.retry_after} s")


if __name__ == "__main__":
    main()
