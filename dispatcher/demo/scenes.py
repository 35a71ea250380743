"""The three scenes of `dispatcher demo`: briefs, the repository they work on, and what the scripted models say.

One model succeeds at once, one is always rate limited, one does its work and then fails before it commits. Every scene
exists twice: as steps for the model server, behind which the real CLIs run unmodified, and as a script inside the brief
for the built-in worker, where no CLI is installed. Same files, same commits, same ending.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

STEADY, LIMITED, CLUMSY = "demo-steady", "demo-limited", "demo-clumsy"
MODELS = (STEADY, LIMITED, CLUMSY)

FIRST, FINISH = "Prompt: first", "Prompt: finish"  # in the first line of every prompt, see dispatcher.prompts

REPOSITORY: Mapping[str, str] = {
    ".gitignore": "__pycache__/\n",
    "README.md": "# Scratch\n\nA repository to try things in. Run the tests with `python3 test_words.py`.\n",
    "AGENTS.md": "Small functions, one test file. Commit with a short message.\n",
    "words.py": 'def shout(text: str) -> str:\n    """The text in capitals."""\n    return text.upper() + "!"\n',
    "test_words.py": 'from words import shout\n\nassert shout("hi") == "HI!"\nprint("ok")\n',
}


@dataclass(frozen=True)
class Scene:
    """One brief. `route` are the models tried in order, `file` is what the work consists of."""

    name: str
    title: str
    difficulty: str
    route: tuple[str, ...]
    text: str
    file: str
    content: str
    message: str
    shows: str  # what a person should see in the log
    verify: tuple[str, ...] = field(default=("python3 test_words.py",))

    @property
    def commit(self) -> str:
        return f"git add -- {self.file} && git commit -qm '{self.message}'"


SCENES = (
    Scene(
        name="licence",
        title="Add a note on the licence",
        difficulty="trivial",
        route=(STEADY,),
        text="Write `LICENCE.md` with one line that says that this scratch repository may be used by anybody.",
        file="LICENCE.md",
        content="Anybody may use this scratch repository for anything.\n",
        message="Add a note on the licence",
        shows="succeeds at once",
    ),
    Scene(
        name="whisper",
        title="Add a whisper function",
        difficulty="easy",
        route=(LIMITED, STEADY),
        text="Add `whisper(text)` in `whisper.py`: the text in small letters, followed by three dots.",
        file="whisper.py",
        content='def whisper(text: str) -> str:\n    """In small letters."""\n    return text.lower() + "..."\n',
        message="Add whisper",
        shows="meets a rate limit; the next model of the route does it",
    ),
    Scene(
        name="count",
        title="Count the words of a text",
        difficulty="medium",
        route=(CLUMSY, STEADY),
        text="Add `count(text)` in `count.py`: the number of words in a text.",
        file="count.py",
        content='def count(text: str) -> int:\n    """How many words a text has."""\n    return len(text.split())\n',
        message="Add count",
        shows="exits 1 with its work done; a finish prompt gets it committed",
    ),
)

_LIMIT = "Rate limit reached for this model"
_FAULT = "Invalid request: the tool arguments could not be read"


def brief(scene: Scene, *, scripted: bool) -> str:
    """The Markdown of a brief; for the built-in worker with the script that it plays."""
    verify = json.dumps(list(scene.verify))
    front = f"---\ntitle: {scene.title}\ndifficulty: {scene.difficulty}\nverify: {verify}\n---\n"
    body = f"{scene.text}\nCommit when it is done.\n"
    if scripted:
        body += f"\nWhat the built-in worker plays:\n\n```script\n{json.dumps(_rules(scene), indent=1)}\n```\n"
    return front + body


def server_scripts() -> dict[str, list[Json]]:
    """What each model of the server says. A model knows a scene by the words of its brief."""
    works = [_group(FIRST, scene, _work_and_commit(scene)) for scene in SCENES if scene.route[-1] == STEADY]
    clumsy = [_group(FIRST, scene, _work_and_fail(scene)) for scene in SCENES if scene.route[0] == CLUMSY]
    finishes = [_group(FINISH, scene, _only_commit(scene)) for scene in SCENES]
    limit = {"error": {"status": 429, "message": _LIMIT, "headers": {"retry-after": "3600"}}, "repeat": True}
    return {STEADY: [*works, *finishes], LIMITED: [limit], CLUMSY: [*clumsy, *finishes]}


def routes(names: Mapping[str, str]) -> dict[str, list[str]]:
    """Difficulty -> candidates, where `names` says which candidate plays which model."""
    return {scene.difficulty: [names[model] for model in scene.route] for scene in SCENES}


def _group(prompt: str, scene: Scene, steps: Sequence[Json]) -> Json:
    return {"when": {"prompt": prompt, "request": scene.text.splitlines()[0][:40]}, "steps": list(steps)}


def _write(scene: Scene) -> Json:
    return {"text": f"I will write {scene.file}.", "write": {"path": scene.file, "content": scene.content}}


def _work_and_commit(scene: Scene) -> list[Json]:
    return [
        _write(scene),
        {"shell": f"{scene.verify[0]} && {scene.commit}"},
        {"text": f"Done: {scene.file} is there, the tests pass, and it is committed."},
    ]


def _work_and_fail(scene: Scene) -> list[Json]:
    return [_write(scene), {"error": {"status": 400, "message": _FAULT}, "repeat": True}]


def _only_commit(scene: Scene) -> list[Json]:
    return [{"shell": f"{scene.verify[0]} && {scene.commit}"}, {"text": "Done: the tests pass, and it is committed."}]


def _rules(scene: Scene) -> list[Json]:
    """The same for the built-in worker."""
    file = {"write": {"path": scene.file, "content": scene.content}}
    said = {"text": f"Done: {scene.file} is there and committed."}
    commit = {"shell": scene.commit}
    return [
        {"model": f"*/{LIMITED}", "steps": [{"error": {"status": 429, "message": _LIMIT, "retry_after": 3600}}]},
        {"prompt": FINISH, "steps": [commit, said]},
        {"model": f"*/{CLUMSY}", "steps": [file, {"error": {"status": 400, "message": _FAULT}}]},
        {"steps": [file, commit, said]},
    ]
