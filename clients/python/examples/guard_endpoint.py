#!/usr/bin/env python3
"""An HTTP endpoint that every caller may use 5 times per window of the server.

Further requests get 429 with a Retry-After header. When the rate-limit server is unreachable, the
endpoint stays open: on_failure="open".

    guard_endpoint.py localhost:8081 [--port 8000]
    curl -i localhost:8000/?user=ann
"""

import argparse
import http.server
import math
import urllib.parse

import sluicegate


def make_handler(client: sluicegate.Client) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            user = query.get("user", [self.client_address[0]])[0]
            outcome = client.acquire(f"endpoint:{user}", max_requests=5, details=True)
            if outcome:
                self.answer(200, f"hello {user}\n")
            else:
                retry_s = math.ceil(outcome.retry_after or 0)
                self.answer(429, f"{outcome.verdict}\n", {"Retry-After": str(retry_s)})

        def answer(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("server", help="address of the native port, as localhost:8081")
    parser.add_argument("--port", type=int, default=8000, help="0: any that is free")
    arguments = parser.parse_args()
    with sluicegate.Client(arguments.server, on_failure="open", timeout=0.5) as client:
        with http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port),
                                             make_handler(client)) as server:
            print(f"listening on port {server.server_port}", flush=True)
            server.serve_forever()


if __name__ == "__main__":
    main()
