#!/usr/bin/env python3
"""Pictures of a real run: plays `sarabande demo` in a terminal (tmux) and writes demo.svg and demo.txt beside itself.

    docs/demo.py [path of sarabande]

The moment is the middle of the last policy, when all the others can be compared with it; the text has the summary as
well.
"""

import html
import pathlib
import re
import subprocess
import sys
import time

COLUMNS, ROWS = 104, 26
ACT = re.compile(r"act 5/6 .*\n.*?([\d.]+) of ([\d.]+) s")
SESSION = "sarabande-demo-capture"

# The sixteen colours of a terminal, on the dark background below.
PALETTE = ["#1d2129", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#c8ccd4",
           "#6b7383", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#ffffff"]
BACKGROUND, FOREGROUND = "#1d2129", "#c8ccd4"
CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.0, 17, 14


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
            if picture is None and act and float(act[1]) > 0.75 * float(act[2]):
                picture = tmux("capture-pane", "-p", "-e", "-t", SESSION)
            if "wrong server\n" in text and "policy  " in text and "╭" not in text:
                return picture, text.strip("\n")
    finally:
        tmux("kill-session", "-t", SESSION)


def runs(line):
    """(text, colour, bold) of a line with escape sequences."""
    colour, bold = FOREGROUND, False
    for text, codes in re.findall(r"([^\x1b]+)|\x1b\[([\d;]*)m", line):
        if text:
            yield text, colour, bold
            continue
        for code in [int(code or 0) for code in codes.split(";")]:
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


def svg(picture):
    lines = picture.rstrip("\n").split("\n")
    width, height = COLUMNS * CELL_WIDTH + 2 * MARGIN, len(lines) * CELL_HEIGHT + 2 * MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" '
           f'height="{height}" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" '
           'font-size="13">', f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>']
    for row, line in enumerate(lines):
        column = 0
        for text, colour, bold in runs(line):
            # Each word has its own place: fonts differ in width, and blanks are not drawn.
            for word in re.finditer(r"\S+(?: \S+)*", text):
                x = MARGIN + (column + word.start()) * CELL_WIDTH
                y = MARGIN + row * CELL_HEIGHT + 13
                length = len(word[0]) * CELL_WIDTH
                weight = ' font-weight="bold"' if bold else ""
                out.append(f'<text x="{x:g}" y="{y}" fill="{colour}"{weight} textLength="{length:g}" '
                           f'lengthAdjust="spacingAndGlyphs" xml:space="preserve">{html.escape(word[0])}</text>')
            column += len(text)
    return "\n".join([*out, "</svg>", ""])


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else "sarabande"
    picture, summary = record(binary)
    here = pathlib.Path(__file__).parent
    (here / "demo.svg").write_text(svg(picture))
    plain = "".join(text for text in re.sub(r"\x1b\[[\d;]*m", "", picture).rstrip("\n"))
    (here / "demo.txt").write_text(f"{plain}\n\n{summary}\n")


main()
