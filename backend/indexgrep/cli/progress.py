"""The progress of a build: a bar that is redrawn on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import os
import time
from typing import Any

#: Seconds between two states that are shown.
_REDRAW_S = 0.1
_LINE_S = 5.0
_BAR = 24


class Progress:
    """Shows states of a build (``progress`` in ``doc/protocol.md``) on standard error."""

    def __init__(self) -> None:
        self._terminal = os.isatty(2)
        self._started = time.monotonic()
        self._last = 0.0
        self._phase = ""
        self._drawn = False
        #: Seconds from the making of this object to its ``end``.
        self.elapsed = 0.0

    def update(self, state: dict[str, Any]) -> None:
        """Shows ``state`` unless the last one was shown a moment ago."""
        now = time.monotonic()
        phase = str(state.get("phase", ""))
        interval = _REDRAW_S if self._terminal else _LINE_S
        if phase in ("ready", "failed") or (phase == self._phase and now - self._last < interval):
            return
        self._phase, self._last = phase, now
        text = describe(state)
        if self._terminal:
            self._drawn = True
            self._write(f"\r\x1b[K{bar(state)} {text}")
        else:
            self._write(f"{text}\n")

    def end(self) -> None:
        """Clears the bar and stops the clock."""
        self.elapsed = time.monotonic() - self._started
        if self._drawn:
            self._write("\r\x1b[K")

    @staticmethod
    def _write(text: str) -> None:
        try:
            os.write(2, text.encode())
        except OSError:
            pass


def bar(state: dict[str, Any]) -> str:
    """The bar of a state, by bytes where they are known and else by documents."""
    for unit in ("bytes", "documents"):
        total = state.get(f"{unit}_total")
        if total:
            filled = round(_BAR * min(1.0, state.get(unit, 0) / total))
            return f"[{'#' * filled}{'.' * (_BAR - filled)}]"
    return f"[{'.' * _BAR}]"


def describe(state: dict[str, Any]) -> str:
    """A state in words: phase, documents, bytes, rate and time left, as far as they are known."""
    from .commands import human

    parts = [f"{state.get('phase', '')}:"]
    total = state.get("documents_total")
    parts.append(f"{state.get('documents', 0):,}" + (f" of {total:,}" if total else "") + " documents,")
    total = state.get("bytes_total")
    parts.append(human(state.get("bytes", 0)) + (f" of {human(total)}" if total else ""))
    if state.get("rate"):
        parts[-1] += ","
        parts.append(f"{human(state['rate'])}/s")
    if state.get("eta_s") is not None:
        parts[-1] += ","
        parts.append(f"{state['eta_s']:.0f} s left")
    return " ".join(parts)
