#!/usr/bin/env python3
"""README.md, docs/ and bench/results/ point at what exists: relative links and their anchors, and the paths of this
repository that stand in `code`, with the functions that are named after a colon. The README stays short. The index of each
room of docs/ links to each of its pages, and docs/README.md to each room.
usage: docs_links_test.py SOURCE_DIR"""
import re
import sys
from pathlib import Path

README_LINES = 180
FOLDERS = "src include tests bench config experiments datasets docs cmake integrations .ci".split()
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def prose(text):
    """Without code blocks, whose lines are as many as before."""
    return FENCE.sub(lambda block: "\n" * block.group().count("\n"), text)


def anchors(path):
    """GitHub's: lower case, no punctuation, spaces become hyphens; a repeated heading gets a number."""
    found = {}
    for heading in re.findall(r"^#+ (.*)$", prose(path.read_text(encoding="utf-8")), re.M):
        name = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        count = found[name] = found.get(name, -1) + 1
        if count:
            found[f"{name}-{count}"] = 0
    return found


def problem_of_link(page, target):
    name, _, anchor = target.partition("#")
    file = (page.parent / name).resolve() if name else page.resolve()
    if not file.exists():
        return f"link to {target}: no such file"
    if anchor and anchor not in anchors(file):
        return f"link to {target}: no such heading"
    return None


def problem_of_path(root, text):
    """`src/cli/run.cpp`, `config/`, `docs/*.md`; not `src/<module>/` and not commands."""
    path = text.rstrip("/")
    if not re.fullmatch(r"[\w.*/-]+", path) or path.split("/")[0] not in FOLDERS or "/" not in text:
        return None
    return None if any(root.glob(path)) else f"`{text}`: no such file"


def problem_of_name(root, file, name):
    """`src/cli/run.cpp`:`run`: the file has the last part of the name."""
    path = root / file
    word = re.escape(re.split(r"::", name.split("(")[0])[-1])
    if not path.is_file() or re.search(rf"\b{word}\b", path.read_text(encoding="utf-8")):
        return None
    return f"`{file}`:`{name}`: the file has no such name"


def problems(root, page):
    text = prose(page.read_text(encoding="utf-8"))
    for number, line in enumerate(text.splitlines(), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if not re.match(r"[a-z]+:", target) and (problem := problem_of_link(page, target)):
                yield f"{page.relative_to(root)}:{number}: {problem}"
        for code in re.findall(r"`([^`]+)`", line):
            if problem := problem_of_path(root, code):
                yield f"{page.relative_to(root)}:{number}: {problem}"
        for file, name in re.findall(r"`([^`]+)`:`([^`]+)`", line):
            if problem := problem_of_name(root, file, name):
                yield f"{page.relative_to(root)}:{number}: {problem}"


def unlinked(root, docs):
    """Pages that the index of their folder does not name, and folders that the index above does not."""
    for page in docs:
        above = page.parent.parent if page.name == "README.md" else page.parent
        index = above / "README.md"
        link = f"({page.relative_to(above)})"
        if not index.is_file() or link not in index.read_text(encoding="utf-8"):
            yield f"{index.relative_to(root)}: does not link to {page.relative_to(above)}"


def main():
    root = Path(sys.argv[1]).resolve()
    readme = root / "README.md"
    docs = sorted((root / "docs").rglob("*.md"))
    found = [problem for page in [readme, *docs] for problem in problems(root, page)]
    others = [root / "tests/documented_commands.md"]
    others += [root / folder / "README.md" for folder in ("experiments/launch", "datasets", "bench/gpu", "integrations/ado")]
    for page in others + sorted((root / "bench/results").glob("*.md")):
        found += problems(root, page)
    text = readme.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > README_LINES:
        found.append(f"README.md: {lines} lines; expected at most {README_LINES}: move details to docs/")
    found += unlinked(root, docs)
    for problem in found:
        print(problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
