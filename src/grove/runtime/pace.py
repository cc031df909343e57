"""What makes a long-running process quick: a fast event loop where one is installed, and few looks for garbage.

Python looks for reference cycles each time a few hundred more objects exist than before. A cache that fills with
hundreds of thousands of values, none of which form cycles, would be searched over and over for nothing.
"""

from __future__ import annotations

import asyncio
import gc

_NEW_OBJECTS = 50_000  # before a look at the new ones; Python's own 700 is meant for small programs


def use_fast_loop() -> None:
    """uvloop, where it is there; asyncio's own loop does the same work for a little more."""
    try:
        import uvloop
    except ImportError:
        return
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


def look_for_garbage_rarely() -> None:
    """For processes that hold large caches. Memory of values without cycles is given back at once, as ever."""
    gc.set_threshold(_NEW_OBJECTS)
