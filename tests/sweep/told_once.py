"""Reads what sweeps said on stderr: no cell may have been settled twice, whichever of them settled it."""

import collections
import re
import sys

settled = collections.Counter(
    match[1] for match in re.finditer(r"^\[\d+/\d+\] (?:valid|invalid) +([^:\n]+):", sys.stdin.read(), re.M)
)
if not settled:
    sys.exit("no sweep said anything")
twice = [cell for cell, count in settled.items() if count > 1]
if twice:
    sys.exit(f"settled more than once: {twice}")
