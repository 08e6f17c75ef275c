"""The intended differences from gocc. A case may name one of these topics and the server's own
behaviour; any other difference fails."""

DIFFERENCES = {
    "bodies": "an approval is the bare number and a denial is empty, unless the request accepts "
              "application/json: then both are JSON",
    "extra headers": "decided answers carry RateLimit and RateLimit-Policy, a denial Retry-After; "
                     "/healthz has Sluicegate-Node",
    "JSON bodies": 'they read {"request_id":1} and {"error":"...","key":"..."}',
    "more paths": "/metrics and /top exist; DELETE /rate/:key resets the key",
    "cost, maxWaitMillis": "two more parameters: how many permits, where 0 takes none and "
                           "shows the key, and how long to wait at most",
    "waiters in /debug": "a key with waiters shows the first of them",
    "windowMillis": "one more parameter: the key's window from now on, unless "
                    "--requests-can-set-window=false forbids it",
    "pipelining": "the server notices a waiting client's hang-up even when it has sent more "
                  "behind its request",
    "key length": "keys above --max-key-bytes are answered with 431",
    "/debug": "above 100,000 keys the list is not sorted",
    "queue fairness": "newcomers never overtake waiters; freed permits go to the head of the "
                      "queue at once instead of at the window's end",
    "wait limit": "a request that waits longer than its own limit or --max-wait-millis is denied",
    "key decoding": "the server splits a path first, then decodes each segment once, whatever its "
                    "escapes are; /debug/:key trims as /rate/:key does",
    "expiry": "a key expires after more than three idle windows, and its expiry never permits "
              "extra approvals",
    "config file": "the server checks it as a whole: any fault ends the start with exit code 2, "
                   "and later leaves the old rules in force",
    "reload": "replaced files, swapped links and small files are noticed too; keys with unchanged "
              "limits keep the overrides of requests",
    "file zero": '"can_queue": false disables the queue, which a queue of 0 in the file does not',
    "400 for the sentinel": "-1000000000 is out of bounds like every other negative number",
    "logs": "times are UTC; expiry is at DEBUG; 404 and 405 obey --log4xx; the format and the "
            "switches hold for every line",
    "shutdown": "SIGTERM and SIGINT answer waiters (503), flush replies and end with exit code 0",
    "limits": "heads, bodies, keys, waiters and connections are bounded, each with an answer",
    "server-type": "fast is the normal server, which decides",
    "distributed mode": "a list of instances is checked: each is a URL and is there once, and one "
                        "of them is the server itself, else the start ends with exit code 2",
    "subcommands": "benchmark is the load tool; completion knows bash, zsh and fish; version is "
                   "new; the help is in groups",
    "request bodies": "the answer does not wait for a body, 100-continue is answered, and a body "
                      "does not hide that the client has left",
    "strictness": "folded headers, transfer encodings but chunked, a Content-Length or Host that "
                  "appears twice, and HTTP/1.1 without Host are refused with 400",
    "port in use": "the start fails with exit code 2, also where another server of the kind has it",
    "exit codes": "start-up errors are one line and exit code 2, without a stack trace",
    "HTTP/2 bounds": "streams, resets, settings, parts of a head, and useless frames are bounded",
    "Upgrade: h2c": "it is ignored with a body, without valid settings, and where Connection does "
                    "not name it",
    # docs/adr/0013-http2-by-nghttp2.md
    "broken preface": "another first word is neither HTTP/1.1 nor HTTP/2 and has no answer; "
                      "another end has 505",
    # docs/adr/0009-where-gocc-is-not-followed.md
    "HTTP by the letter": "lines without carriage return, a Content-Length beside chunks, and "
                          "HTTP/1.2 are refused",
    "a queue of 0": "a live key goes back to a queue of 0 when the file no longer raises it",
    "lengths in the log": "they are the real ones, also of 404, 405 and what the client announced",
    "no address in the log": "system-default omits the client's",
}
