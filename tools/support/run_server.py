"""Starts the server, copies its log to stdout, and shows a first request made with curl.

Used by tools/run. Forwards Ctrl-C to the server as a signal: the first one drains, the second ends
the server at once.
"""

import http.client
import re
import signal
import subprocess
import sys
import threading
import time

KEY = "hello"


READY = re.compile(r'\bready\b.*\bport"?[:=](\d+).*\bnativePort"?[:=](\d+)')


def ports_of(line):
    """The ports in the last start-up log line, JSON or text; None for any other line."""
    found = READY.search(line)
    return (int(found[1]), int(found[2])) if found else None


def first_request(port):
    """Status, reason, headers and body of the first answer; waits until the server accepts."""
    deadline = time.monotonic() + 10
    while True:
        connection = http.client.HTTPConnection("localhost", port, timeout=5)
        try:
            connection.request("POST", f"/rate/{KEY}")
            answer = connection.getresponse()
            return answer.status, answer.reason, answer.getheaders(), answer.read().decode()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        finally:
            connection.close()


def show(port, native_port):
    try:
        status, reason, headers, body = first_request(port)
    except (OSError, http.client.HTTPException) as error:
        print(f"\nNo answer on localhost:{port}: {error}\n", flush=True)
        return
    lines = ["", f"$ curl -i -X POST localhost:{port}/rate/{KEY}", f"HTTP/1.1 {status} {reason}"]
    lines += [f"{name}: {value}" for name, value in headers]
    lines += ["", body.rstrip("\n"), ""]
    lines += [f"REST:            http://localhost:{port}"]
    lines += [f"Native protocol: localhost:{native_port}"]
    lines += ["Stop with Ctrl-C.", ""]
    print("\n".join(lines), flush=True)


def pass_on(server):
    """Copies the server's log to our output until it ends; shows a request once it is ready."""
    shown = False
    for line in server.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        ports = None if shown else ports_of(line)
        if ports:
            shown = True
            # In a thread, since this loop has to keep emptying the server's pipe.
            threading.Thread(target=show, args=ports, daemon=True).start()


def main():
    # A session of its own: the terminal's Ctrl-C reaches only this script, which forwards it.
    server = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True,
                              start_new_session=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: server.send_signal(number))
    # Closing the terminal ends the server as well.
    signal.signal(signal.SIGHUP, lambda number, frame: server.terminate())
    try:
        pass_on(server)
    except BrokenPipeError:  # no reader is left, so no user would stop the server
        server.terminate()
    code = server.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
