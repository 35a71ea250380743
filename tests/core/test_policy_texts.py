"""Texts that a command is given count like its words. They are only read: nothing in this file starts a shell."""

from __future__ import annotations

import pytest

from dispatcher import policy
from dispatcher.policy import Call, Do, shell

FILE = "config/flags.production.json"
RULES = policy.rules([({"path": FILE, "do": "ask", "name": "flags"}, "x")], [])


def decide(command: str) -> Do:
    return policy.decide(Call("bash", {"command": command}, "/work/copy"), RULES).do


@pytest.mark.parametrize(
    "command",
    [
        f"python3 - <<'E'\nopen('{FILE}', 'w').write('x')\nE\n",
        f"patch -p1 <<E\n+++ b/{FILE}\nE\n",
        f"patch <<E\n+++ {FILE}\nE\n",
        f"git apply <<'E'\n--- a/{FILE}\nE\n",
        f"cat <<'E' | git apply\n--- a/{FILE}\nE\n",
        f"cat <<'E' | tr a b | python3 -\nopen('{FILE}', 'w')\nE\n",
        f"{{ python3 -; }} <<'E'\nopen('{FILE}', 'w')\nE\n",
        f"python3 <<< \"open('{FILE}', 'w')\"",
        f"sudo python3 - <<'E'\nopen('{FILE}', 'w')\nE\n",
    ],
)
def test_a_text_that_names_a_guarded_file_is_asked(command: str) -> None:
    assert decide(command) is Do.ASK


@pytest.mark.parametrize(
    "command",
    [
        f"cat <<'E' > notes.md\nsee {FILE}\nE\n",
        f"grep -c flags <<'E'\n{FILE}\nE\n",
        f"cat <<'E' | wc -l\n{FILE}\nE\n",
        "python3 - <<'E'\nprint('hello')\nE\n",
    ],
)
def test_a_text_that_is_only_read_is_not(command: str) -> None:
    assert decide(command) is Do.ALLOW


@pytest.mark.parametrize("command", ["env -S", "env --split-string", "env -i -S"])
def test_an_option_without_its_text_is_not_understood(command: str) -> None:
    with pytest.raises(shell.NotUnderstood, match="without its text"):
        shell.read(command)
    assert decide(command) is Do.ASK
