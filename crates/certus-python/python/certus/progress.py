"""Progress on stderr: one line that is rewritten in a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

Show = Callable[[float, int, int, "float | None"], None]
"""Called with seconds, iteration, gradients, and the bound on the gap or, if nothing is proved, its estimate."""

FIRST, EVERY = 2.0, 10.0


class Line:
    """Shows the progress of a fit. Outside a terminal nothing is shown for a fit that takes less than two seconds."""

    def __init__(self, stream=None) -> None:
        self.stream = stream or sys.stderr
        self.terminal = bool(getattr(self.stream, "isatty", lambda: False)())
        self.began = time.monotonic()
        self.last: float | None = None
        self.width = 0

    wants_words = True
    """Progress in the words of the core, which distinguish bounds from estimates."""

    def __call__(self, seconds: float, iteration: int, gradients: int, words: str) -> None:
        text = f"{seconds:6.1f} s  {words}"
        now = time.monotonic()
        if self.terminal:
            self.stream.write("\r" + text.ljust(self.width))
            self.width = len(text)
        elif now - (self.last if self.last is not None else self.began + FIRST - EVERY) >= EVERY:
            self.last = now
            self.stream.write(text + "\n")
        self.stream.flush()

    def done(self) -> None:
        """Clears the line."""
        if self.terminal and self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()


def watcher(progress: bool | Show | None) -> Show | Line | None:
    """None: a line if stderr is there; False: nothing; True: a line; a function: that."""
    if progress is False:
        return None
    if callable(progress):
        return progress
    return Line() if sys.stderr is not None else None


def finish(show: Show | Line | None) -> None:
    """Clears the line of a `Line`."""
    if isinstance(show, Line):
        show.done()
