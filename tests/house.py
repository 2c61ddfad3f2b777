#!/usr/bin/env python3
"""Counts the sources of one or several commits: sizes of files and functions, comments, and facts that stand as text.

    python3 tests/house.py [COMMIT...]        default: HEAD. Prints a Markdown table, one column for each commit.
    python3 tests/house.py --prose FILE...    the sentences of Markdown files alone, for comparison with other projects

A function is what a line ends with "{" after a ")" and is no control statement, up to the brace that closes it. A text
comparison is "==" or "!=" with a literal in quotes that names a variant: an optimizer, a strategy, a tuning method, a
precision or a padding. Hops are the calls from main to the step loop: the table of docs/internals/architecture.md lists them, and
each has to be in the file that it names. A sentence is what ends in a period, a question mark, an exclamation mark or a
colon, outside of headings, tables and code, and has four words or more.
"""
import argparse
import re
import statistics
import subprocess

VARIANTS = (r'adam\w*|lion\w*|sgd|lomo|adalomo|adafactor|galore\w*|grokadamw|rmsprop\w*|paged_\w+|DDP|FSDP|NO_SHARD|'
            r'FULL_SHARD|SHARD_GRAD_OP|SHARD_OPTIM|HYBRID_\w+|(?:FULL|SHARDED|LOCAL)_STATE_DICT|full|lora|gptq-lora|pt|bf16|fp16|fp8|'
            r'bfloat16|float16|float32|longest|max_length|packed|none|no|each|last|steps|epoch')
COMPARISON = re.compile(r'[=!]= "(?:' + VARIANTS + r')"')
# Before the page about architecture had it: as file:function, read in the sources.
PATHS = {"36c3ee7": """src/main.cpp:main src/cli/app.cpp:run_app src/cli/run.cpp:run src/cli/run.cpp:measure_and_keep
    src/cli/run.cpp:measure src/cli/run.cpp:train src/cli/measuring_session.cpp:MeasuringSession::train
    src/launch/run_job.cpp:run_job src/launch/run_job.cpp:train include/sftbench/engine/engine.h:train
    src/engine/engine.cpp:train src/engine/engine.cpp:train_rank src/engine/train.cpp:train"""}
CONTROL = re.compile(r'^\s*(?:\}?\s*else\b|if\b|for\b|while\b|switch\b|catch\b|do\b|\} catch\b)')


def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def sources(commit):
    for path in git("ls-tree", "-r", "--name-only", commit, "src", "include").split():
        if path.endswith((".cpp", ".h", ".cu", ".cuh")):
            yield path, git("show", f"{commit}:{path}").split("\n")


def code_of(line):
    """Without comments and without what stands in quotes."""
    line = re.sub(r'"(?:[^"\\]|\\.)*"', '""', line)
    line = re.sub(r"'(?:[^'\\]|\\.)'", "' '", line)
    return line.split("//")[0]


def without_raw_strings(lines):
    """The same lines, with nothing in raw strings: their braces open no function."""
    return re.sub(r'R"(\w*)\((.*?)\)\1"', lambda found: '""' + "\n" * found[2].count("\n"), "\n".join(lines),
                  flags=re.S).split("\n")


def function_sizes(lines):
    lines = without_raw_strings(lines)
    sizes, depth, begins = [], 0, []
    signature = ""
    for number, raw in enumerate(lines):
        code = code_of(raw)
        signature = (signature + " " + code).strip() if signature or ")" in code or "(" in code else code
        opens, closes = code.count("{"), code.count("}")
        head = code.rstrip().endswith("{") and opens > closes
        if head and ")" in signature and not CONTROL.match(signature) and "= {" not in code and not re.search(
                r'\b(?:namespace|struct|class|enum)\b', signature):
            begins.append((depth, number))
        if re.search(r"[;{}]\s*$", code):
            signature = ""
        depth += opens - closes
        while begins and depth <= begins[-1][0]:
            sizes.append(number - begins.pop()[1] + 1)
    return sizes


def architecture(commit):
    pages = [path for path in git("ls-tree", "-r", "--name-only", commit, "docs").split()
             if path.endswith("/architecture.md")]
    return git("show", f"{commit}:{pages[0]}")


def hops(commit):
    """Calls on the way of `sftbench run` from main to the step loop."""
    path = PATHS.get(commit, "").split()
    steps = [step.split(":", 1) for step in path] or re.findall(
        r"^\| \d+ \| `([^`]+)`:`([^`]+)`", architecture(commit), re.M)
    for file, function in steps:
        name = function.split("::")[-1]
        if not re.search(rf"\b{name}\b *(?:= *\[|\()", git("show", f"{commit}:{file}")):
            raise SystemExit(f"{commit}: {file} has no {function}")
    return len(steps) - 1


def sentences(markdown):
    """Numbers of words, and how many semicolons end a clause."""
    lengths, semicolons, fenced, block = [], 0, False, []
    for line in [*markdown.split("\n"), ""]:
        text = line.strip()
        if text.startswith("```"):
            fenced = not fenced
        prose = not fenced and text and not text.startswith(("#", "|", "```", "<"))
        item = re.match(r"([-*]|\d+\.) ", text)
        if block and (not prose or item):
            plain = re.sub(r"`[^`]*`", "x", re.sub(r"\]\([^)]*\)", "]", " ".join(block)))
            for sentence in re.split(r"(?<=[.!?:]) +", plain):
                if len(sentence.split()) >= 4:
                    lengths.append(len(sentence.split()))
                    semicolons += sentence.count(";")
            block = []
        if prose:
            block.append(text[item.end():] if item else text)
    return lengths, semicolons


def prose_row(texts):
    counted = [sentences(text) for text in texts]
    lengths = [length for found, _ in counted for length in found]
    return (f"{len(lengths)}: {statistics.median(lengths):.0f} / {p90(lengths)} / {max(lengths)}, "
            f"{sum(semicolons for _, semicolons in counted)} semicolons")


def p90(values):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]


def room_of(path, rooms):
    """The folder of src where the module of a file stands today, also for a commit where src was flat."""
    module = path.removeprefix("include/sftbench/").removeprefix("src/").split("/")[0]
    return rooms.get(module, "others")


def lines_of_rooms(commit):
    rooms = {}
    for path in git("ls-tree", "-r", "-d", "--name-only", "HEAD", "src/").split():
        for module in path.split("/")[1:3]:
            rooms.setdefault(module, path.split("/")[1])
    lines = dict.fromkeys(sorted(set(rooms.values())) + ["others"], 0)
    for path, text in sources(commit):
        lines[room_of(path, rooms)] += len(text) - 1
    return {f"lines of {room}": count for room, count in lines.items()}


def counted(commit):
    headers, bodies, functions = [], [], []
    comments = code = comparisons = wide = todo = 0
    for path, lines in sources(commit):
        (headers if path.endswith((".h", ".cuh")) else bodies).append(len(lines))
        functions += function_sizes(lines)
        for line in lines:
            text = line.strip()
            comments += text.startswith("//")
            code += bool(text) and not text.startswith("//")
            comparisons += len(COMPARISON.findall(line))
            wide += len(line) > 100
            todo += bool(re.search(r"\b(?:TODO|FIXME)\b", line))
    readme = git("show", f"{commit}:README.md").count("\n")
    pages = [path for path in git("ls-tree", "-r", "--name-only", commit, "docs").split() if path.endswith(".md")]
    texts = [git("show", f"{commit}:{path}") for path in ["README.md", *pages]]
    return {"headers": len(headers), "sources": len(bodies), "lines": sum(headers) + sum(bodies),
            **lines_of_rooms(commit), "header lines p50 / p90": f"{statistics.median(headers):.0f} / {p90(headers)}",
            "source lines p50 / p90": f"{statistics.median(bodies):.0f} / {p90(bodies)}",
            "source lines, most": max(bodies), "sources above 500 lines": sum(size > 500 for size in bodies),
            "functions": len(functions),
            "function lines p50 / p90 / most": f"{statistics.median(functions):.0f} / {p90(functions)} / {max(functions)}",
            "functions above 60 lines": sum(size > 60 for size in functions),
            "comment lines per line of code": f"{comments / code:.2f}",
            "lines above 100 columns": wide, "TODO, FIXME": todo,
            "comparisons with the name of a variant": comparisons,
            "calls from main to the step loop": hops(commit),
            "lines of README": readme, "pages in docs/": len(pages),
            "sentences of README and docs: words p50 / p90 / most": prose_row(texts)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", default=["HEAD"])
    parser.add_argument("--prose", nargs="+", metavar="FILE")
    given = parser.parse_args()
    if given.prose:
        for name in given.prose:
            with open(name, encoding="utf-8") as file:
                print(f"{name}: {prose_row([file.read()])}")
        return
    commits = given.commits
    columns = [counted(commit) for commit in commits]
    print("| | " + " | ".join(commits) + " |\n| --- |" + " --- |" * len(commits))
    for name in columns[0]:
        print(f"| {name} | " + " | ".join(str(column[name]) for column in columns) + " |")


if __name__ == "__main__":
    main()
