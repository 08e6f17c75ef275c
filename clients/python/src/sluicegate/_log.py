"""The clients' log: `logging.getLogger("sluicegate")`.

Shape:  INFO: connected; WARNING: a connection was lost, or could not be made (once an outage), and
        settles are kept; ERROR: a settle is lost. Without a handler the lines of WARNING and above
        go to stderr, as of any library; `getLogger("sluicegate").addHandler(...)` hooks them.
"""

from __future__ import annotations

import logging

LOG = logging.getLogger("sluicegate")
