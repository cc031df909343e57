"""The command `grove-initc`.

Exit status: 0 when every parent is ready, 2 when the arguments cannot be understood, 143 when told to stop.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from grove.initc.arguments import ArgumentsError, parse
from grove.initc.waiting import Wait

MALFORMED = 2
STOPPED = 128 + signal.SIGTERM


def main() -> NoReturn:
    """Wait as the command line says, and exit."""
    # As the first process of a container it would ignore the signal without a handler. Raising ends any wait at once.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        task = parse(sys.argv[1:], os.environ)
    except ArgumentsError as error:
        print(f"grove-initc: {error}", file=sys.stderr, flush=True)
        sys.exit(MALFORMED)
    done = Wait(task, lambda line: print(line, flush=True)).run()
    sys.exit(0 if done else STOPPED)


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(STOPPED)


if __name__ == "__main__":
    main()
