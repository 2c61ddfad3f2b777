#!/usr/bin/env python3
"""The table of models in docs/models.md, which the program writes.

usage: models_page.py PATH_OF_SFTBENCH [--check]

Without --check the page gets what `sftbench models --format md` prints. With it the page stays, and a difference fails.
"""
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "models.md"
BEGIN, END = "<!-- begin: sftbench models --format md -->\n", "<!-- end -->\n"


def main():
    program, check = sys.argv[1], "--check" in sys.argv[2:]
    table = subprocess.run([program, "models", "--format", "md"], check=True, capture_output=True, text=True).stdout
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    wanted = before + BEGIN + table + END + after
    if not check:
        PAGE.write_text(wanted)
    elif page != wanted:
        sys.exit(f"{PAGE} is not what the program prints; write it again: tests/models_page.py {program}")


if __name__ == "__main__":
    main()
