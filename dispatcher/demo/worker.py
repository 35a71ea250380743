"""A worker without a model: it looks like `opencode run` from outside and does what a script in its prompt says.

For tests and the demo, where the real harness is too slow, too big, or cannot be made to misbehave on purpose. It takes
opencode's arguments and the prompt on stdin, and writes opencode's events, error log lines and exit codes (as captured
from 1.18.33). It must start fast, so it uses the standard library only and imports nothing of this package.

The script stands in the prompt, so in the brief, as a fenced block whose info word is `script`: a JSON list of rules.

    ```script
    [{"prompt": "Prompt: first", "model": "demo/free-*", "times": 1, "steps": [{"error": {"status": 429}}]},
     {"prompt": "Prompt: finish", "steps": [{"commit": {"message": "add a", "files": ["a.txt"]}}]},
     {"steps": [{"text": "working"}, {"write": {"path": "a.txt", "content": "hi\\n"}}, {"commit": "add a"}]}]
    ```

The first rule that fits plays: `model` is a glob for the full model id, `prompt` a text that the prompt outside the
block must contain, `times` how often the rule may play in this working directory. All three are optional. No script,
or no rule that fits: a run that succeeds, says so, and does nothing. `"steps": []` is the smallest successful run.

A step is an object with one key.

    text                "words"
    write, append       {path, content}
    shell               "command", run by bash in a session of its own
    commit              "message" (of the files that this run wrote) or {message, files}
    todo                ["open", {"content": "done", "status": "completed"}]
    tool_error          {tool, input, error}: a tool call that failed; the run goes on
    denied              "command": a permission rule refused it; the run ends there with exit 0
    error               {status, message, type, retry_after}, or {name, message}: the error event, then exit 1
    ratelimit_silent    true or {message, sleep}: the ERROR log line on stderr, then silence (seconds; an hour)
    usage               {input, output, cost} of each model call from here on
    step                n or {count, reason, every}: model calls that say nothing, `every` seconds
    sleep, hang         seconds; true (for ever)
    exit, no_finish     the exit code, at once; true: exit 0 without the last event
    signal_self         "KILL" or a number
    ignore_term         true (SIGINT is always ignored, as by opencode)
    daemon              seconds or {seconds, pid_file}: a process that was forked twice, in its own session
    stdout, stderr      "raw text"
    bad_bytes           true: a line that is not UTF-8
    long_line           bytes in one event
    big_output          bytes or {bytes, to}, `to` stdout or stderr, in many lines
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import fnmatch
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

VERSION = "1.18.33"
MODELS = ("demo/free-small", "demo/free-large", "demo/strong")

_BLOCK = re.compile(r"^```script[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_HOUR = 3600.0
_CHUNK = 60_000

Json = dict[str, Any]


class ScriptError(ValueError):
    """The script in the prompt cannot be read or played."""


def new_id(kind: str) -> str:
    """An id like opencode's: `ses_`, `msg_`, `prt_`, `call_` and something that is never the same twice."""
    return f"{kind}_{os.urandom(13).hex()}"


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


def write_out(data: bytes, to: str = "stdout") -> None:
    """Straight to the descriptor: what is printed is there, also when a later step kills this process."""
    stream = sys.stderr.buffer if to == "stderr" else sys.stdout.buffer
    stream.write(data)
    stream.flush()


# ---- what it remembers between runs: its sessions, and how often a rule has played ----


def memory() -> Path:
    """Its own folder, where opencode keeps its own: never in the working directory, which is not its to dirty."""
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    folder = Path(base, "scripted-worker")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def _plays() -> Iterator[dict[str, int]]:
    """How often each rule has played, kept when the block ends. Two workers at once take turns; one that is killed
    in the middle leaves the old counts."""
    counts = memory() / "plays.json"
    with (memory() / "plays.lock").open("a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        plays: dict[str, int] = json.loads(counts.read_text(encoding="utf-8")) if counts.exists() else {}
        yield plays
        part = counts.with_suffix(".part")
        part.write_text(json.dumps(plays), encoding="utf-8")
        part.replace(counts)


# ---- which steps play ----


def find_script(prompt: str) -> tuple[list[Json] | None, str]:
    """The rules in a prompt (None: it has no script), and the prompt without them. Raises `ScriptError`."""
    found = _BLOCK.search(prompt)
    if found is None:
        return None, prompt
    try:
        rules = json.loads(found[1])
    except ValueError as error:
        raise ScriptError(f"the script is not JSON: {error}") from error
    if not isinstance(rules, list) or not all(isinstance(rule, dict) and "steps" in rule for rule in rules):
        raise ScriptError("the script is not a list of rules with steps")
    if unknown := set().union(*rules) - {"model", "prompt", "times", "steps"}:
        raise ScriptError(f"unknown key in a rule: {', '.join(sorted(unknown))}")
    return rules, _BLOCK.sub("", prompt)


def choose(rules: list[Json], model: str, prompt: str) -> list[Json] | None:
    """The steps of the first rule that fits, counted as played; None if there is none."""
    with _plays() as plays:
        for rule in rules:
            key = f"{os.getcwd()} {json.dumps(rule, sort_keys=True)}"
            fits = fnmatch.fnmatchcase(model, rule.get("model", "*")) and rule.get("prompt", "") in prompt
            if fits and plays.get(key, 0) < rule.get("times", sys.maxsize):
                plays[key] = plays.get(key, 0) + 1
                steps: list[Json] = rule["steps"]
                return steps
    return None


# ---- playing them ----


class Player:
    """Plays steps as the events of one opencode run.

    opencode frames each model call by `step_start` and `step_finish`. Here a call ends with each tool it used.
    """

    def __init__(self, model: str, session: str) -> None:
        self.provider, _, self.model = model.partition("/")
        self.session = session
        self._message = ""
        self._written: list[str] = []
        self._usage: Json = {"input": 1200, "output": 34, "cost": 0}
        self._steps = self._known_steps()

    def play(self, steps: list[Json]) -> None:
        for step in steps:
            if len(step) != 1 or (name := next(iter(step))) not in self._steps:
                raise ScriptError(f"a step is one of {', '.join(self._steps)}, not {json.dumps(step)}")
            try:
                self._steps[name](step[name])
            except (KeyError, TypeError, AttributeError) as error:
                raise ScriptError(f"step {json.dumps(step)}: {error!r}") from error
        self._close("stop")

    def fail(self, name: str, data: Json) -> NoReturn:
        """The error event and the ERROR log line, then exit 1: how opencode reports what it does not get over."""
        self._log(str(data["message"]))
        self._emit("error", error={"name": name, "data": data})
        sys.exit(1)

    def _known_steps(self) -> dict[str, Callable[[Any], None]]:
        return {
            "text": self._text,
            "write": lambda value: self._write(value, "w"),
            "append": lambda value: self._write(value, "a"),
            "shell": self._shell,
            "commit": self._commit,
            "todo": self._todo,
            "usage": self._usage.update,
            "step": self._empty_calls,
            "tool_error": lambda value: self._failed_tool(value["tool"], value.get("input", {}), value["error"]),
            "denied": self._denied,
            "error": self._error,
            "ratelimit_silent": self._ratelimit_silent,
            "sleep": lambda value: time.sleep(float(value)),
            "hang": lambda value: _hang(),
            "exit": lambda value: sys.exit(int(value)),
            "no_finish": lambda value: sys.exit(0),
            "signal_self": lambda value: os.kill(os.getpid(), _signal_number(value)),
            "ignore_term": lambda value: _ignore(signal.SIGTERM),
            "daemon": _daemon,
            "stdout": lambda value: write_out(value.encode()),
            "stderr": lambda value: write_out(value.encode(), "stderr"),
            "bad_bytes": lambda value: write_out(b'{"type":"text","part":{"text":"\xff\xfe\x80 \x00"}}\n'),
            "long_line": lambda value: self._text("x" * int(value)),
            "big_output": self._big_output,
        }

    # -- events --

    def _emit(self, kind: str, **rest: Any) -> None:
        event = {"type": kind, "timestamp": milliseconds(), "sessionID": self.session, **rest}
        write_out(json.dumps(event, separators=(",", ":")).encode() + b"\n")

    def _part(self, kind: str, part_type: str, **rest: Any) -> None:
        ids = {"id": new_id("prt"), "messageID": self._message, "sessionID": self.session}
        self._emit(kind, part={**ids, "type": part_type, **rest})

    def _open(self) -> None:
        if not self._message:
            self._message = new_id("msg")
            self._part("step_start", "step-start", snapshot="0" * 40)

    def _close(self, reason: str) -> None:
        self._open()
        usage = self._usage
        counted = {"input": usage["input"], "output": usage["output"], "reasoning": 0, "cache": {"write": 0, "read": 0}}
        tokens = {"total": usage["input"] + usage["output"], **counted}
        self._part("step_finish", "step-finish", reason=reason, snapshot="0" * 40, tokens=tokens, cost=usage["cost"])
        self._message = ""

    def _tool(self, tool: str, state: Json, began: int) -> None:
        self._open()
        timed = {**state, "time": {"start": began, "end": milliseconds()}}
        self._part("tool_use", "tool", tool=tool, callID=new_id("call"), state=timed)
        self._close("tool-calls")

    def _log(self, message: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{milliseconds() % 1000:03}Z"
        where = f"providerID={self.provider} modelID={self.model} session.id={self.session} small=false"
        said = json.dumps(f"AI_APICallError: {message}")
        line = f'timestamp={now} level=ERROR run=scripted message="stream error" {where} agent=build mode=primary'
        write_out(f"{line} error.error={said}\n".encode(), "stderr")

    # -- steps --

    def _text(self, value: str) -> None:
        self._open()
        now = milliseconds()
        self._part("text", "text", text=value, time={"start": now, "end": now})

    def _write(self, value: Json, mode: str) -> None:
        began = milliseconds()
        path = Path(value["path"])
        existed = path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, encoding="utf-8") as file:
            file.write(value["content"])
        self._written.append(value["path"])
        given = {"filePath": value["path"], "content": value["content"]}
        told = {"filepath": str(path.resolve()), "exists": existed, "truncated": False}
        said = {"output": "Wrote file successfully.", "metadata": told, "title": value["path"]}
        self._tool("write", {"status": "completed", "input": given, **said}, began)

    def _shell(self, command: str) -> None:
        """The output goes through a file: a child left in the background must not keep this run waiting for a pipe."""
        began = milliseconds()
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                ["bash", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                check=False,
            )
            output.seek(0)
            text = output.read().decode("utf-8", "replace") or "(no output)"
        told = {"output": text, "exit": done.returncode, "truncated": False}
        given = {"command": command, "description": "Scripted command"}
        said = {"output": text, "metadata": told, "title": command}
        self._tool("bash", {"status": "completed", "input": given, **said}, began)

    def _commit(self, value: str | Json) -> None:
        message, files = (value, self._written) if isinstance(value, str) else (value["message"], value["files"])
        self._shell(f"git add -- {shlex.join(files)} && git commit -q -m {shlex.quote(message)}")

    def _todo(self, value: list[str | Json]) -> None:
        began = milliseconds()
        plain: Json = {"status": "pending", "priority": "medium"}
        todos = [{**plain, **({"content": one} if isinstance(one, str) else one)} for one in value]
        still = sum(todo["status"] != "completed" for todo in todos)
        said = {"output": json.dumps(todos, indent=2), "metadata": {"todos": todos}, "title": f"{still} todos"}
        self._tool("todowrite", {"status": "completed", "input": {"todos": todos}, **said}, began)

    def _failed_tool(self, tool: str, given: Json, error: str) -> None:
        self._tool(tool, {"status": "error", "input": given, "error": error}, milliseconds())

    def _denied(self, command: str) -> None:
        asked = f"\x1b[93m\x1b[1m! \x1b[0mpermission requested: bash ({command}); auto-rejecting\n"
        write_out(asked.encode(), "stderr")
        given = {"command": command, "description": "Scripted command"}
        self._failed_tool("bash", given, "The user rejected permission to use this specific tool call.")
        sys.exit(0)

    def _empty_calls(self, value: int | Json) -> None:
        many: Json = {"count": value} if isinstance(value, int) else value
        for _ in range(many.get("count", 1)):
            self._close(many.get("reason", "unknown"))
            time.sleep(many.get("every", 0))

    def _error(self, value: Json) -> None:
        message = value.get("message", "scripted error")
        if "status" not in value:
            self.fail(value.get("name", "UnknownError"), {"message": message})
        status = int(value["status"])
        kind = value.get("type", "rate_limit_error" if status == 429 else "api_error")
        headers = {"content-type": "application/json"}
        if "retry_after" in value:
            headers["retry-after"] = str(value["retry_after"])
        data = {
            "message": message,
            "statusCode": status,
            "isRetryable": status == 429 or status >= 500,
            "responseHeaders": headers,
            "responseBody": json.dumps({"error": {"message": message, "type": kind}}),
            "metadata": {"url": "http://127.0.0.1/v1/chat/completions"},
        }
        self.fail(value.get("name", "APIError"), data)

    def _ratelimit_silent(self, value: Json | bool) -> None:
        asked: Json = {} if isinstance(value, bool) else value
        self._log(asked.get("message", "Rate limit exceeded: free-models-per-day"))
        time.sleep(float(asked.get("sleep", _HOUR)))

    def _big_output(self, value: int | Json) -> None:
        asked: Json = {"bytes": value} if isinstance(value, int) else value
        for start in range(0, asked["bytes"], _CHUNK):
            chunk = "x" * min(_CHUNK, asked["bytes"] - start)
            if asked.get("to") == "stderr":
                write_out(chunk.encode() + b"\n", "stderr")
            else:
                self._text(chunk)


def _hang() -> None:
    while True:
        signal.pause()


def _ignore(number: int) -> None:
    """A handler, not SIG_IGN: a command started later must not inherit it."""
    signal.signal(number, lambda *_: None)


def _signal_number(value: str | int) -> int:
    return value if isinstance(value, int) else signal.Signals[f"SIG{value.removeprefix('SIG')}"]


def _daemon(value: float | Json) -> None:
    """Leave a process behind that shares neither session nor parent with this one; returns when it runs."""
    asked: Json = value if isinstance(value, dict) else {"seconds": value}
    child = os.fork()
    if child == 0:
        os.setsid()
        grandchild = os.fork()
        if grandchild == 0:
            os.execvp("sleep", ["sleep", str(asked["seconds"])])
        if "pid_file" in asked:
            Path(asked["pid_file"]).write_text(str(grandchild), encoding="utf-8")
        os._exit(0)
    os.waitpid(child, 0)


# ---- the command line ----


def session_for(asked: str | None) -> str:
    """A new session, or the one asked for; a session this worker never opened ends the run, as with opencode."""
    sessions = memory() / "sessions"
    sessions.mkdir(exist_ok=True)
    if asked is None:
        asked = new_id("ses")
        (sessions / asked).touch()
    elif not (sessions / asked).exists():
        _refuse("Session not found")
    return asked


def _refuse(message: str) -> NoReturn:
    write_out(f"\x1b[91m\x1b[1mError: \x1b[0m{message}\n".encode(), "stderr")
    sys.exit(1)


def run(model: str, session: str | None) -> int:
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    if not prompt.strip():
        _refuse("You must provide a message or a command")
    _ignore(signal.SIGINT)
    player = Player(model, session_for(session))
    try:
        rules, asked = find_script(prompt)
        steps = None if rules is None else choose(rules, model, asked)
        if steps is None:
            why = "no script in it" if rules is None else "no rule in its script that fits"
            steps = [{"text": f"The prompt has {why}, so nothing was done."}]
        player.play(steps)
    except ScriptError as error:
        player.fail("UnknownError", {"message": str(error)})
    return 0


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="opencode", description="A scripted worker with opencode's interface.")
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("models", help="list model ids, one per line")
    runs = commands.add_parser("run", help="play the script in the prompt on stdin")
    runs.add_argument("--model", default="")
    runs.add_argument("--session")
    runs.add_argument("--agent")
    runs.add_argument("--format", choices=["default", "json"], default="default")
    runs.add_argument("--print-logs", action="store_true")
    runs.add_argument("--log-level", default="ERROR")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    arguments = _arguments(given)
    if arguments.command == "models":
        write_out("".join(f"{model}\n" for model in MODELS).encode())
        return 0
    return run(arguments.model, arguments.session)


if __name__ == "__main__":
    sys.exit(main())
