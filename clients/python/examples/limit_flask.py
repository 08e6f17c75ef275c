#!/usr/bin/env python3
"""A Flask application that Flask-Limiter limits by a Sluicegate server, all its processes together.

Every caller may ask 5 times a minute; further requests get 429 with a Retry-After header. While the
server is unreachable, each process limits by itself.

    limit_flask.py localhost:8081 [--port 8000]
    curl -i localhost:8000/
"""

import argparse

import flask
import werkzeug.serving
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address

import sluicegate.limits_storage  # noqa: F401  (registers sluicegate:// with limits)


def make_app(server: str) -> flask.Flask:
    app = flask.Flask(__name__)
    limiter = Limiter(get_remote_address, app=app, headers_enabled=True,
                      storage_uri=f"sluicegate://{server}?timeout=0.5",
                      strategy="moving-window", in_memory_fallback=["5 per minute"])

    @app.get("/")
    @limiter.limit("5 per minute")
    def hello() -> str:
        return "hello\n"

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("server", help="address of the native port, as localhost:8081")
    parser.add_argument("--port", type=int, default=8000, help="0: any that is free")
    arguments = parser.parse_args()
    server = werkzeug.serving.make_server("127.0.0.1", arguments.port, make_app(arguments.server),
                                          threaded=True)
    print(f"listening on port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
