#!/usr/bin/env python3
"""Pictures of a real run: plays `sarabande demo` in a terminal (tmux) and writes demo.svg and demo.txt beside itself.

    docs/demo.py [path of sarabande]

The moment is the end of act 4, when ten times the capacity has arrived for some seconds; the text has the last screen
as well.
"""

import html
import pathlib
import re
import subprocess
import sys
import time

COLUMNS, ROWS = 80, 24
ACT = re.compile(r"act 4/5 .*\n.*?([\d.]+) of ([\d.]+) s")
SESSION = "sarabande-demo-capture"

# The sixteen colours of a terminal, on the dark background below.
PALETTE = ["#1d2129", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#c8ccd4",
           "#6b7383", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#ffffff"]
BACKGROUND, FOREGROUND = "#1d2129", "#c8ccd4"
# The glyphs of most monospaced fonts are 0.6 em wide.
CELL_WIDTH, CELL_HEIGHT, MARGIN, FONT_SIZE = 8, 17, 14, 13.3


def tmux(*words):
    return subprocess.run(["tmux", *words], check=True, capture_output=True, text=True).stdout


def record(binary):
    """The live view with its colours, and the summary."""
    command = f"'{binary}' demo; sleep 600"
    tmux("new-session", "-d", "-s", SESSION, "-x", str(COLUMNS), "-y", str(ROWS), command)
    try:
        picture = None
        while True:
            time.sleep(0.1)
            text = tmux("capture-pane", "-p", "-t", SESSION)
            act = ACT.search(text)
            if picture is None and act and float(act[1]) > 0.85 * float(act[2]):
                picture = tmux("capture-pane", "-p", "-e", "-t", SESSION)
            if "More to see:" in text and "╭" not in text:
                return picture, text.strip("\n")
    finally:
        tmux("kill-session", "-t", SESSION)


def runs(picture):
    """(text, colour, bold) of text with escape sequences, which hold beyond the end of a line."""
    colour, bold = FOREGROUND, False
    for text, codes in re.findall(r"(\n|[^\x1b\n]+)|\x1b\[([\d;]*)m", picture):
        if text:
            yield text, colour, bold
            continue
        codes = [int(code or 0) for code in codes.split(";")]
        while codes:
            code = codes.pop(0)
            if code in (0, 39):
                colour = FOREGROUND
            if code in (0, 22):
                bold = False
            elif code == 1:
                bold = True
            elif 30 <= code <= 37:
                colour = PALETTE[code - 30]
            elif 90 <= code <= 97:
                colour = PALETTE[code - 82]
            elif code == 38 and codes[0] == 5:
                colour, codes = PALETTE[codes[1]], codes[2:]


def drawn(glyph, x, y):
    """A line or block as a path: fonts leave gaps between them. None for letters."""
    middle, centre = x + CELL_WIDTH / 2, y + CELL_HEIGHT / 2
    right, bottom = x + CELL_WIDTH, y + CELL_HEIGHT
    corner = {"╭": (bottom, right), "╮": (bottom, x), "╰": (y, right), "╯": (y, x)}
    if glyph in "─│":
        start, end = ((x, centre), (right, centre)) if glyph == "─" else ((middle, y), (middle, bottom))
        return "line", f"M{start[0]:g} {start[1]:g}L{end[0]:g} {end[1]:g}"
    if glyph in corner:
        vertical, horizontal = corner[glyph]
        return "line", f"M{middle:g} {vertical:g}Q{middle:g} {centre:g} {horizontal:g} {centre:g}"
    if glyph == "░":
        return "shade", f"M{x:g} {bottom - 1:g}h{CELL_WIDTH:g}v{3 - CELL_HEIGHT:g}h{-CELL_WIDTH:g}z"
    if "▁" <= glyph <= "█":
        # Bars of neighbouring rows are kept apart.
        height = (CELL_HEIGHT - 3) * (ord(glyph) - ord("▁") + 1) / 8
        return "block", f"M{x:g} {bottom - 1:g}h{CELL_WIDTH:g}v{-height:g}h{-CELL_WIDTH:g}z"
    return None


def svg(picture):
    width, height = COLUMNS * CELL_WIDTH + 2 * MARGIN, ROWS * CELL_HEIGHT + 2 * MARGIN
    fonts = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" '
           f'height="{height}" font-family="{fonts}" font-size="{FONT_SIZE}">', f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>']
    column, y = 0, MARGIN
    for text, colour, bold in runs(picture):
        if text == "\n":
            column, y = 0, y + CELL_HEIGHT
            continue
        paths = {}
        for index, glyph in enumerate(text):
            if path := drawn(glyph, MARGIN + (column + index) * CELL_WIDTH, y):
                paths.setdefault(path[0], []).append(path[1])
        for kind, path in paths.items():
            paint = f'fill="none" stroke="{colour}"' if kind == "line" else f'fill="{colour}"'
            paint += ' fill-opacity="0.4"' if kind == "shade" else ""
            out.append(f'<path {paint} d="{"".join(path)}"/>')
        weight = ' font-weight="bold"' if bold else ""
        # Each word has its own place, since fonts differ in width.
        for word in re.finditer(r"[^\s─│╭╮╰╯▁-█░]+", text):
            x = MARGIN + (column + word.start()) * CELL_WIDTH
            out.append(f'<text x="{x}" y="{y + 13}" fill="{colour}"{weight}>{html.escape(word[0])}</text>')
        column += len(text)
    return "\n".join([*out, "</svg>", ""])


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else "sarabande"
    picture, summary = record(binary)
    here = pathlib.Path(__file__).parent
    (here / "demo.svg").write_text(svg(picture))
    plain = re.sub(r"\x1b\[[\d;]*m", "", picture).rstrip("\n")
    (here / "demo.txt").write_text(f"{plain}\n\n{summary}\n")


main()
