"""Where the server differs from gocc on purpose. A case may name one of these topics, and what the
server does instead; any other difference fails."""

DIFFERENCES = {
    "bodies": "an approval is the bare number and a denial is empty, unless the request accepts "
              "application/json: then both are JSON",
    "extra headers": "decided answers carry RateLimit and RateLimit-Policy, a denial Retry-After",
    "JSON bodies": 'they read {"request_id":1} and {"error":"...","key":"..."}',
    "more paths": "/metrics and /top are there",
    "cost, maxWaitMillis": "two more parameters: how many permits, and how long to wait at most",
    "pipelining": "a client that hangs up while it waits is noticed even when it has sent more "
                  "behind its request",
    "key length": "keys above --max-key-bytes are answered with 431",
    "/debug": "above 100,000 keys the list is not sorted",
    "queue fairness": "nobody overtakes who waits; what is freed goes to the head of the queue "
                      "at once instead of at the window's end",
    "wait limit": "who waits longer than asked for, or than --max-wait-millis, is denied",
    "key decoding": "a path is split first, then each segment is decoded once, whatever its "
                    "escapes look like; /debug/:key trims as /rate/:key does",
    "expiry": "a key goes when it was idle for more than three windows, and never gives away "
              "approvals when it goes",
    "config file": "it is checked as a whole: anything wrong ends the start with exit code 2, and "
                   "leaves the old rules in force later",
    "reload": "replaced files, swapped links and small files are noticed too; keys whose limits "
              "the file leaves alone keep what requests have set",
    "file zero": '"can_queue": false says what a queue of 0 cannot say in the file',
    "400 for the sentinel": "-1000000000 is out of bounds like every other negative number",
    "logs": "times are UTC; expiry is at DEBUG; 404 and 405 obey --log4xx; the format and the "
            "switches hold for every line",
    "shutdown": "SIGTERM and SIGINT let waiters know (503), flush replies and end with exit code 0",
    "limits": "heads, bodies, keys, waiters and connections are bounded, each with an answer",
    "server-type": "the option is accepted and without effect",
    "HTTP/2": "HTTP/1.1 alone is spoken",
    "distributed mode": "there is one instance; a list of instances ends the start with exit "
                        "code 2",
    "subcommands": "benchmark is the load tool; completion knows bash, zsh and fish; version is "
                   "new; the help is in groups",
    "request bodies": "the answer does not wait for a body, 100-continue is answered, and a body "
                      "does not hide that the client is gone",
    "strictness": "folded headers, transfer encodings but chunked, a Content-Length or Host that "
                  "comes twice, and HTTP/1.1 without Host are refused with 400",
    "port in use": "the start fails with exit code 2, also where another server of the kind has it",
    "exit codes": "start-up errors are one line and exit code 2, without a stack trace",
    # docs/adr/0009-where-gocc-is-not-followed.md
    "HTTP by the letter": "lines without carriage return, a Content-Length beside chunks, and "
                          "HTTP/1.2 are refused",
    "a queue of 0": "a live key goes back to a queue of 0 when the file no longer raises it",
    "lengths in the log": "they are the real ones, also of 404, 405 and what the client announced",
    "no address in the log": "system-default does not tell the client's",
}
