"""Make the README's picture from a real screen: Neovim runs ``:IndexGrep``, and what it draws becomes an SVG.

    python tools/picture.py [--repo FOLDER] [--file FILE] [--size COLUMNSxROWS] [--out FILE] [COMMAND]

Needs what ``make run`` installs. Nothing is drawn by hand: cells, colours and attributes are those that
Neovim sends to an attached user interface (``:help ui-linegrid``).
"""

from __future__ import annotations

import argparse
import os
import threading
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import pynvim

HERE = Path(__file__).resolve().parents[1]

CELL_WIDTH, CELL_HEIGHT, FONT_SIZE = 8.4, 18, 14


@dataclass
class Screen:
    """The cells of a grid as Neovim describes them."""

    columns: int
    rows: int
    cells: list[list[tuple[str, int]]] = field(init=False)
    attributes: dict[int, dict[str, Any]] = field(default_factory=dict)
    foreground: int = 0xFFFFFF
    background: int = 0

    def __post_init__(self) -> None:
        self.cells = [[(" ", 0)] * self.columns for _ in range(self.rows)]

    def apply(self, event: str, *arguments: Any) -> None:
        """Take one event of the user-interface protocol."""
        if event == "grid_line":
            _, row, column, cells, *_ = arguments
            attribute = 0
            for cell in cells:
                attribute = cell[1] if len(cell) > 1 else attribute
                for _ in range(cell[2] if len(cell) > 2 else 1):
                    self.cells[row][column] = (cell[0], attribute)
                    column += 1
        elif event == "grid_clear":
            self.__post_init__()
        elif event == "grid_scroll":
            _, top, bottom, left, right, rows, _ = arguments
            span = range(top, bottom - rows) if rows > 0 else range(bottom - 1, top - rows - 1, -1)
            for row in span:
                self.cells[row][left:right] = self.cells[row + rows][left:right]
        elif event == "hl_attr_define":
            self.attributes[arguments[0]] = arguments[1]
        elif event == "default_colors_set":
            self.foreground, self.background = arguments[0], arguments[1]

    def svg(self) -> str:
        """The screen as an SVG document."""
        width, height = self.columns * CELL_WIDTH, self.rows * CELL_HEIGHT
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
            f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{FONT_SIZE}">',
            f'<rect width="100%" height="100%" rx="6" fill="#{self.background:06x}"/>',
        ]
        for row, cells in enumerate(self.cells):
            parts += self._row(row, cells)
        return "\n".join([*parts, "</svg>", ""])

    def _row(self, row: int, cells: list[tuple[str, int]]) -> list[str]:
        """One row: runs of cells with the same attributes."""
        backgrounds, texts = [], []
        start = 0
        for end in range(1, len(cells) + 1):
            if end < len(cells) and cells[end][1] == cells[start][1]:
                continue
            look = self.attributes.get(cells[start][1], {})
            front = look.get("foreground", self.foreground)
            back = look.get("background", self.background)
            if look.get("reverse"):
                front, back = back, front
            x, length = start * CELL_WIDTH, (end - start) * CELL_WIDTH
            if back != self.background:
                backgrounds.append(
                    f'<rect x="{x:.1f}" y="{row * CELL_HEIGHT}" width="{length:.1f}" height="{CELL_HEIGHT}" '
                    f'fill="#{back:06x}"/>'
                )
            text = "".join(cell[0] for cell in cells[start:end])
            if text.strip():
                weight = ' font-weight="bold"' if look.get("bold") else ""
                style = ' font-style="italic"' if look.get("italic") else ""
                y = row * CELL_HEIGHT + FONT_SIZE
                texts.append(
                    f'<text x="{x:.1f}" y="{y}" fill="#{front:06x}"{weight}{style} '
                    f'textLength="{length:.1f}" xml:space="preserve">{escape(text)}</text>'
                )
            start = end
        return backgrounds + texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--repo", type=Path, default=HERE)
    parser.add_argument("--file", default="backend/indexgrep/overlay/view.py")
    parser.add_argument("--size", default="118x34")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to let the editor draw")
    parser.add_argument("--out", type=Path, default=HERE / "doc" / "picker.svg")
    parser.add_argument("command", nargs="?", default=r"IndexGrep ^class \w+\(IndexGrepError\)")
    options = parser.parse_args()
    columns, rows = map(int, options.size.split("x"))
    from run import find_neovim

    screen = Screen(columns, rows)
    os.chdir(options.repo)
    argv = [find_neovim(), "--embed", "-u", str(HERE / "tools" / "run.lua"), options.file]
    nvim = pynvim.attach("child", argv=argv)

    def drawn(name: str, arguments: list[Any]) -> None:
        if name == "redraw":
            for event, *calls in arguments:
                for call in calls:
                    screen.apply(event, *call)

    def start() -> None:
        nvim.ui_attach(columns, rows, rgb=True, ext_linegrid=True)
        nvim.command("set termguicolors notitle shortmess+=F")
        nvim.async_call(lambda: nvim.input(f":{options.command}\r"))
        threading.Timer(options.seconds, lambda: nvim.async_call(nvim.stop_loop)).start()

    nvim.run_loop(lambda *_: None, drawn, setup_cb=start)
    options.out.write_text(screen.svg())
    nvim.close()
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
