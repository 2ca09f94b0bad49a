"""Progress on stderr: one line that is rewritten in a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

Show = Callable[[float, int, int, "float | None"], None]
"""Called with seconds, iteration, gradients, and the bound on the gap or, where nothing is proved, its estimate."""

FIRST, EVERY = 2.0, 10.0


class Line:
    """What is shown while a fit runs. Nothing is shown of a fit that takes less than two seconds outside a terminal."""

    def __init__(self, goal: float | None, stream=None) -> None:
        self.goal = goal
        self.stream = stream or sys.stderr
        self.terminal = bool(getattr(self.stream, "isatty", lambda: False)())
        self.began = time.monotonic()
        self.last: float | None = None
        self.width = 0

    wants_words = True
    """The gap comes in the words of the core, which tell bounds from estimates."""

    def __call__(self, seconds: float, iteration: int, gradients: int, gap: str) -> None:
        if self.goal is None:
            text = f"{seconds:6.1f} s  groups integrated out, {gradients} passes"
        else:
            text = f"{seconds:6.1f} s  {gap}, goal {self.goal:g}; iteration {iteration}, {gradients} gradients"
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


def watcher(progress: bool | Show | None, goal: float | None) -> Show | Line | None:
    """None: a line if stderr is there; False: nothing; True: a line; a function: that. Without a goal there is no gap to reach."""
    if progress is False:
        return None
    if callable(progress):
        return progress
    return Line(goal) if sys.stderr is not None else None


def finish(show: Show | Line | None) -> None:
    """Clears what a `Line` left."""
    if isinstance(show, Line):
        show.done()
