"""Starts the server, copies its log to stdout, and shows a first request made with curl.

Used by tools/run:

    run_server.py [--keep FILE] BINARY [FLAGS...]

FILE is the server's state file, unless the flags name another (run_state.py). Forwards Ctrl-C to
the server as a signal: the first one drains, the second ends the server at once.
"""

import contextlib
import http.client
import ipaddress
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import run_state

KEY = "hello"
HEALTH = (200, 503)  # what /healthz answers; 503 while the server drains
LISTENS = "0A"  # the state in /proc/net/tcp


def address_of(text):
    """The address in /proc/net/tcp, "0100007F:1F90": words in the machine's byte order, a port."""
    words, port = text.split(":")
    data = b"".join(bytes.fromhex(words[i:i + 8])[::-1] for i in range(0, len(words), 8))
    return str(ipaddress.ip_address(data)), int(port, 16)


def listening(table, inodes):
    """The addresses on which these sockets listen, in the text of /proc/PID/net/tcp or tcp6."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return {address_of(row[1]) for row in rows if row[3] == LISTENS and row[9] in inodes}


def listening_of(pid):
    """The addresses on which the process listens. The log would not do: its format, its level and
    its stream are flags of the server's."""
    proc = pathlib.Path(f"/proc/{pid}")
    inodes = set()
    for descriptor in (proc / "fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(descriptor)))
    tables = [(proc / "net" / name).read_text() for name in ("tcp", "tcp6")
              if (proc / "net" / name).exists()]
    return set().union(*(listening(table, inodes) for table in tables))


def host_for(address):
    """What a client calls a server that listens there."""
    return "localhost" if ipaddress.ip_address(address).is_unspecified else address


def in_url(host):
    return f"[{host}]" if ":" in host else host


def is_rest(host, port):
    """Whether REST is spoken there. The native port answers HTTP too, but only to refuse it."""
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status in HEALTH
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def find_server(process):
    """Host, REST port and native port, once the server serves; None if it has ended instead. A
    large configuration file takes it seconds."""
    while process.poll() is None:
        try:
            places = {(host_for(address), port) for address, port in listening_of(process.pid)}
        except OSError:  # it has just ended
            continue
        if len({port for _, port in places}) == 2:
            rest = [place for place in places if is_rest(*place)]
            if rest:
                host, port = rest[0]
                return host, port, next(other for _, other in places if other != port)
        time.sleep(0.05)
    return None


def first_request(host, port):
    """Status, reason, headers and body of the first answer."""
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("POST", f"/rate/{KEY}")
        answer = connection.getresponse()
        return answer.status, answer.reason, answer.getheaders(), answer.read().decode()
    finally:
        connection.close()


def show(process):
    """Shows a first request once the server serves."""
    found = find_server(process)
    if found is None:
        return
    host, port, native_port = found
    address = f"{in_url(host)}:{port}"
    try:
        status, reason, headers, body = first_request(host, port)
    except (OSError, http.client.HTTPException) as error:
        print(f"\nNo answer on {address}: {error}\n", flush=True)
        return
    lines = ["", f"$ curl -i -X POST {address}/rate/{KEY}", f"HTTP/1.1 {status} {reason}"]
    lines += [f"{name}: {value}" for name, value in headers]
    lines += ["", body.rstrip("\n"), ""]
    lines += [f"REST:            http://{address}"]
    lines += [f"Native protocol: {in_url(host)}:{native_port}"]
    lines += ["Stop with Ctrl-C.", ""]
    print("\n".join(lines), flush=True)


def pass_on(server):
    """Copies the server's log to our output until it ends."""
    for line in server.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()


def command_of(arguments):
    """The server's command line; names its state file."""
    if arguments[0] != "--keep":
        return arguments
    path, binary, *flags = arguments[1:]
    flags, line = run_state.prepared(flags, path, os.environ)
    print(f"tools/run: {line}", file=sys.stderr, flush=True)
    return [binary, *flags]


def main():
    try:
        command = command_of(sys.argv[1:])
    except run_state.Refused as refusal:
        print(f"tools/run: {refusal}", file=sys.stderr)
        return 2
    # A session of its own: the terminal's Ctrl-C reaches only this script, which forwards it.
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                              start_new_session=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: server.send_signal(number))
    # Closing the terminal ends the server as well.
    signal.signal(signal.SIGHUP, lambda number, frame: server.terminate())
    # In a thread, since this one has to keep emptying the server's pipe.
    threading.Thread(target=show, args=(server,), daemon=True).start()
    try:
        pass_on(server)
    except BrokenPipeError:  # no reader is left, so no user would stop the server
        server.terminate()
    code = server.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
