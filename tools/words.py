"""Find words of a private lexicon in the texts of the project, and suggest the established term.

``python tools/words.py [PATH ...]`` reads docstrings, comments and string literals of Python files (of tests, also the
names of test functions), and all lines of Markdown files outside code blocks. It prints ``file:line``, the words and a
suggestion, and exits with 1 if there are any. Without a path it reads src, tests, docs, README.md and CHANGELOG.md.
The glossary is in ``docs/style.md``. A comment ``words: allow`` with a reason, at the end of a line, excepts that line.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_PATHS = ("src", "tests", "docs", "README.md", "CHANGELOG.md")
# Files that quote the words: the glossary, this file and its tests.
EXEMPT = {"docs/style.md", "tools/words.py", "tests/test_words.py"}
ALLOW = "words: allow"


@dataclass(frozen=True)
class Rule:
    """A pattern and the suggestion for what it finds; `everywhere` rules also read names of tests and identifiers."""

    pattern: re.Pattern[str]
    suggestion: str
    everywhere: bool = False


@dataclass(frozen=True)
class Finding:
    """Words at a line of a file."""

    path: str
    line: int
    words: str
    suggestion: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.words!r}: {self.suggestion}"


def rule(pattern: str, suggestion: str, *, everywhere: bool = False) -> Rule:
    """Return a rule; spaces in the pattern match any white space, so that line breaks do not hide words."""
    return Rule(re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE), suggestion, everywhere)


UNITS = (
    "axis|block|bucket|call|cell|center|class|cluster|coefficient|column|component|coordinate|core|degree|dimension|"
    "direction|element|engine|entry|factor|feature|file|fit|fold|form|frequency|function|group|iteration|kernel|label|"
    "landmark|layer|lengthscale|level|line|map|matrix|monomial|node|output|pair|panel|parameter|part|partition|pass|"
    "path|penalty|point|power|process|product|row|rule|sample|second|seed|segment|split|start|step|stratum|target|"
    "task|term|test|thread|threshold|tile|trial|value|vertex|worker"
)
COUNTED = r"(?:column|component|feature|number|task|threshold|value|pass|factor|thread|label|method)(?:s|es)?"

RULES = (
    rule(r"\b(?:by )?any road\b|\broads?\b", "backend; in memory, out of core and on Dask"),
    rule(rf"\bone an? (?:{UNITS})\b(?! (?:of|to|for|with|that|in|at|on)\b)", "one per ..."),
    rule(
        rf"\b(?:(?:one|two|three|four) (?:{COUNTED})|numbers|ns|ms|bytes|microseconds|seconds|multiply-adds?)"
        rf" an? (?:{UNITS})\b",
        "... per ...",
    ),
    rule(
        r"\b(?:is|are|was|were|be) (?:said|told)\b(?! (?:apart|to)\b)|\btold (?:in|by)\b|\bor told\b",
        "is reported, is raised, a warning says",
    ),
    rule(r"\bof now\b|\bof before\b", "updated, previous"),
    rule(r"\bnobody\b|\bwhoever\b", "no user, the caller, the author", everywhere=True),
    rule(r"\bin words\b", "as text"),
    rule(r"\btruth values?\b", "boolean"),
    rule(r"(?<!error\s)(?<!warning\s)\btexts\b", "strings; of people: documents"),
    rule(
        r"(?<!power\s)(?<!power-)\blaws?\b(?! of (?:large numbers|cosines|total \w+))",
        "distribution",
        everywhere=True,
    ),
    rule(r"\bstands? for\b|\bstood for\b", "represents, means"),
    rule(r"\bcannot stand\b|\bstands? (?:among|beside)\b", "is, contains, is listed"),
    rule(r"\b(?:a|the|its|their|of|left to|with the same|with its) chances?\b", "probability, randomness"),
    rule(r"\ba begin\b", "a start"),
    rule(r"\bsure (?:bounds?|error)\b", "deterministic bound"),
    rule(r"\bfor free\b", "at no cost"),
    rule(r"\bthe way back\b", "inverse_transform"),
    rule(r"\bmust be as many\b", "must have equal lengths"),
    rule(r"\b(?:one|that|which|map|engine|kernel|twins?) serves?\b|\bwill serve\b", "implements, is used, suffices"),
    rule(r"\bMATHS\b", "the paper, or a page of docs/theory"),
    # British spelling, also in identifiers.
    rule(r"\b\w*?centr(?:e[sd]?|ing)\b", "center", everywhere=True),
    rule(r"\b\w*?neighbour\w*", "neighbor", everywhere=True),
    rule(r"\b\w*?(?:un)?labell(?:ed|ing)\b", "labeled, labeling", everywhere=True),
    rule(r"\b\w*?(?:colour|favour|behaviour|honour)\w*", "color, favor, behavior", everywhere=True),
    rule(
        r"\b\w*?(?:normal|regular|minim|maxim|optim|initial|factor|general|organ|standard|penal|vector|random|"
        r"serial|local|parallel|real|recogn|symmetr|linear|centr)is(?:e[sdr]?|ing|ation|ations|ers)\b",
        "-ize, -ization",
        everywhere=True,
    ),
    rule(
        r"\bmodell(?:ed|ing)\b|\banalys(?:e[sd]?|ing)\b(?<!analyses)|\blicence\b", "American spelling", everywhere=True
    ),
)


def texts_of(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield texts of a file with the number of their first line, and whether they are names."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from markdown(source)
    else:
        yield from python_texts(source, names=path.name.startswith("test_"))


def markdown(source: str) -> Iterator[tuple[int, str, bool]]:
    """Yield paragraphs of Markdown, without code blocks and code spans."""
    fenced, start, lines = False, 1, list[str]()
    for number, line in enumerate(source.splitlines(), 1):
        fence = line.lstrip().startswith("```")
        if fence or fenced or not line.strip():
            if lines:
                yield start, "\n".join(lines), False
            lines, start = [], number + 1
            fenced ^= fence
        else:
            lines.append("" if ALLOW in line else re.sub(r"`[^`]*`", "`code`", line))
    if lines:
        yield start, "\n".join(lines), False


def python_texts(source: str, *, names: bool) -> Iterator[tuple[int, str, bool]]:
    """Yield comments, joined over adjacent lines, string literals, and names of test functions."""
    comment, start, last = list[str](), 0, -1
    allowed = {i for i, line in enumerate(source.splitlines(), 1) if ALLOW in line}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            if line != last + 1 and comment:
                yield start, "\n".join(comment), False
                comment = []
            start, last = (line if not comment else start), line
            comment.append("" if line in allowed else token.string.lstrip("# "))
        elif token.type == tokenize.STRING or token.type == getattr(tokenize, "FSTRING_MIDDLE", -1):
            blanked = [
                "" if i in allowed else text for i, text in enumerate(token.string.splitlines() or [""], token.start[0])
            ]
            yield line, "\n".join(blanked), False
    if comment:
        yield start, "\n".join(comment), False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.arg):
            name = node.arg if isinstance(node, ast.arg) else node.name
            is_test = names and name.startswith("test_")
            if node.lineno not in allowed:
                yield node.lineno, name.replace("_", " "), not is_test


def findings_in(path: Path, name: str) -> list[Finding]:
    """Return the findings in one file, in the order of lines."""
    found = []
    for start, text, is_name in texts_of(path):
        for rule in RULES:
            if is_name and not rule.everywhere:
                continue
            for match in rule.pattern.finditer(text):
                line = start + text.count("\n", 0, match.start())
                found.append(Finding(name, line, " ".join(match.group().split()), rule.suggestion))
    return sorted(set(found), key=lambda f: (f.line, f.words))


def files_under(paths: Iterable[str]) -> Iterator[Path]:
    """Yield Python and Markdown files at or below the paths."""
    for given in paths:
        path = Path(given) if Path(given).is_absolute() else ROOT / given
        if path.is_dir():
            yield from sorted(p for suffix in ("py", "pyi", "md") for p in path.rglob(f"*.{suffix}"))
        else:
            yield path


def main(paths: list[str]) -> int:
    """Print all findings; return 1 if there are any."""
    found = []
    for path in files_under(paths or DEFAULT_PATHS):
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.as_posix()
        if name not in EXEMPT:
            found += findings_in(path, name)
    for finding in found:
        print(finding)
    if found:
        print(f"{len(found)} findings; docs/style.md has the glossary.", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
