"""Makes `runs.jsonl.gz`: the real opencode and the real claude, editing code about failures, against a scripted model.

    DISPATCHER_TEST_CLIS=FOLDER python -m tests.harness.talk.generate

Each run writes code that holds two of the topics, prints them from a tool on both streams, fails a tool call with a
stack trace, edits, commits and sums up in their words. All of it succeeds. Paths of this machine are taken out.
"""

from __future__ import annotations

import gzip
import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from ...clis import Cli
from ..real import Bench
from .topics import TOPICS

RUNS = Path(__file__).with_name("runs.jsonl.gz")
CLIS: tuple[Cli, ...] = ("opencode", "claude")
_LONGEST = 6_000  # bytes of a line that is kept whole; the CLIs list all their tools in one
_FAILING = "python3 -c \"import limits; raise RuntimeError('HTTP 429: ' + limits.TEXT)\""


def steps(first: str, second: str) -> list[dict[str, Any]]:
    """One working day. The tool calls print what the texts say; the third one fails."""
    code = f"TEXT = {first!r}\n\nSTATUS = 429\n"
    loud = f"cat limits.py; printf '%s\\n' {shlex.quote(second)}; printf '%s\\n' {shlex.quote(second)} >&2"
    subject = shlex.quote(f"handle: {first.splitlines()[0][:60]}")
    return [
        {"text": f"The service says: {first}\nI handle it.", "write": {"path": "limits.py", "content": code}},
        {"text": f"Now what the log has: {second}", "shell": loud},
        {"shell": _FAILING},
        {"read": {"path": "missing-429.log"}},
        {"edit": {"path": "limits.py", "old": "STATUS = 429", "new": "STATUS = 401  # not 429"}},
        {"shell": f"git add limits.py && git commit -qm {subject} && git show"},
        {"text": f"Done. A 429 is retried now, a 401 is not. Handled: {first}\n{second}"},
    ]


def record(cli: Cli, names: tuple[str, str], root: Path, home: Path) -> dict[str, Any]:
    bench = Bench(cli, root, home)
    bench.server.start()
    try:
        bench.script(*steps(*(TOPICS[name] for name in names)))
        run = bench.start(prompt=f"Headless run. Prompt: first.\n\nHandle this: {TOPICS[names[0]]}")
        outcome = run.outcome()
        sys.stderr.write(f"{cli} {' '.join(names)}: {outcome.kind}\n")
        channels = {name: run.lines(file) for name, file in _CHANNELS}
    finally:
        bench.close()
    plain = {name: [neutral(line, root, home) for line in lines] for name, lines in channels.items()}
    return {"name": f"{cli}/{'+'.join(names)}", "cli": cli, **plain}


_CHANNELS = (("stdout", "stdout"), ("stderr", "stderr"), ("bridge", "bridge.jsonl"))


def neutral(line: bytes, root: Path, home: Path) -> str:
    """Without this machine's paths. An overlong first event loses its lists, not its meaning."""
    text = line.decode("utf-8", "replace")
    for path, name in ((root / "copy", "/repo"), (root, "/attempt"), (home, "/home/user")):
        text = text.replace(str(path), name).replace(str(path).replace("/", "-"), name.replace("/", "-"))
    if len(text) > _LONGEST and text.startswith('{"type":"system"'):
        event = json.loads(text)
        text = json.dumps({key: [] if isinstance(value, list) else value for key, value in event.items()})
    return text


def main() -> None:
    names = list(TOPICS)
    pairs = [(names[place], names[place + 1]) for place in range(0, len(names) - 1, 2)]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        home.mkdir()
        made = []
        for cli in CLIS:
            for number, pair in enumerate(pairs):
                root = Path(folder, f"{cli}-{number}")
                root.mkdir()
                made.append(record(cli, pair, root, home))
    text = "".join(json.dumps(run, ensure_ascii=False) + "\n" for run in made)
    RUNS.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
