"""What a sandbox's command line looks like: pure, so every kind is looked at here without being installed."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher import sandbox


class Box(NamedTuple):
    kind: str
    image: str | None = None
    command: tuple[str, ...] = ()
    network: bool = True
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


SCENE = sandbox.Scene(
    harness="claude",
    copy="/state/copies/7/work",
    folder="/h/logs/7/1",
    tmp="/state/copies/7/tmp",
    home="/state/copies/7/home",
    real_home="/home/ann",
    read=("/opt/claude", "/home/ann/src/shop/.git/objects"),
    files=(("/home/ann/.gitconfig", "/home/ann/.gitconfig", False),),
    hidden=("/tmp", "/home", "/h", "/state/copies"),
    marker="7-abc",
    owner="1000:1000",
)
ENVIRONMENT = {"PATH": "/usr/bin", "HOME": "/home/ann", "ANTHROPIC_API_KEY": "sk-secret", "XDG_CONFIG_HOME": "/x"}
ARGV = ("/opt/claude/claude", "-p", "--model", "m")


def mounts(words: tuple[str, ...]) -> list[tuple[str, str]]:
    """(kind, path inside) in order."""
    found = []
    for place, word in enumerate(words):
        if word.startswith(("--bind", "--ro-bind")):
            found.append((word.removesuffix("-try"), words[place + 2]))
        elif word == "--tmpfs":
            found.append((word, words[place + 1]))
    return found


def test_bwrap_hides_first_and_shows_afterwards() -> None:
    words = sandbox.wrap(ARGV, SCENE.copy, ENVIRONMENT, Box("bwrap"), SCENE)
    order = mounts(words)
    assert order[0] == ("--ro-bind", "/")
    for hidden, shown in (
        ("/home", ("--bind", "/home/ann")),
        ("/h", ("--bind", "/h/logs/7/1")),
        ("/state/copies", ("--bind", "/state/copies/7/work")),
    ):
        assert order.index(("--tmpfs", hidden)) < order.index(shown)
    assert order.index(("--bind", "/home/ann")) < order.index(("--ro-bind", "/home/ann/src/shop/.git/objects"))
    assert order.index(("--bind", "/home/ann")) < order.index(("--ro-bind", "/home/ann/.gitconfig"))
    assert order.index(("--bind", "/h/logs/7/1")) < order.index(("--ro-bind", "/h/logs/7/1/attempt.json"))
    for option in ("--unshare-pid", "--die-with-parent", "--cap-drop"):
        assert option in words
    assert words[words.index("--") + 1 :] == ARGV
    assert "--unshare-net" not in words


def test_bwrap_without_network_and_with_paths_of_the_configuration() -> None:
    box = Box("bwrap", network=False, read=("/data/models", "/home/ann/.cargo"), write=("/var/cache/ccache",))
    words = sandbox.wrap(ARGV, SCENE.copy, ENVIRONMENT, box, SCENE)
    assert "--unshare-net" in words
    order = mounts(words)
    assert ("--ro-bind", "/data/models") in order
    assert ("--bind", "/var/cache/ccache") in order
    assert order.index(("--bind", "/home/ann")) < order.index(("--ro-bind", "/home/ann/.cargo"))


@pytest.mark.parametrize("kind", ["docker", "podman"])
def test_a_container_gets_names_of_variables_and_never_values(kind: str) -> None:
    words = sandbox.wrap(ARGV, SCENE.copy, ENVIRONMENT, Box(kind, image="workers:1"), SCENE)
    assert words[:2] == (kind, "run")
    assert "sk-secret" not in " ".join(words)
    assert ("--env", "ANTHROPIC_API_KEY") in list(itertools.pairwise(words))
    assert "XDG_CONFIG_HOME" not in words
    image = words.index("workers:1")
    assert words[image - 1] == "claude", "the image brings the program; it is found there by its name"
    assert words[image + 1 :] == ARGV[1:]
    assert f"{SCENE.copy}:{SCENE.copy}:rw" in words
    assert "/h/logs/7/1/attempt.json:/h/logs/7/1/attempt.json:ro" in words
    assert sandbox.ending(Box(kind, image="workers:1"), "7-abc") == (kind, "rm", "--force", "dispatcher-7-abc")


def test_a_container_without_network() -> None:
    words = sandbox.wrap(ARGV, SCENE.copy, ENVIRONMENT, Box("docker", image="i", network=False), SCENE)
    assert words[words.index("--network") + 1] == "none"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (("box", "--rw", "{copy}", "--", "{command}"), ("box", "--rw", SCENE.copy, "--", *ARGV)),
        (("box", "--rw={tmp}"), ("box", f"--rw={SCENE.tmp}", *ARGV)),
        (("/bin/sh", "-c", "box {home} {command}"), ("/bin/sh", "-c", f"box {SCENE.home} {' '.join(ARGV)}")),
        (("/bin/sh", "-c", "exec box"), ("/bin/sh", "-c", f"exec box {' '.join(ARGV)}")),
        (("box", "{unknown}"), ("box", "{unknown}", *ARGV)),
    ],
)
def test_a_template(template: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert sandbox.wrap(ARGV, SCENE.copy, ENVIRONMENT, Box("command", command=template), SCENE) == expected


@settings(max_examples=60)
@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=4))
def test_the_command_arrives_word_for_word(argv: list[str]) -> None:
    """Whatever is in the words - quotes, braces that look like a placeholder - nothing of it is read again."""
    import shlex

    template = ("/bin/sh", "-c", "box {command}")
    words = sandbox.wrap(argv, "/c", ENVIRONMENT, Box("command", command=template), SCENE)
    assert shlex.split(words[2])[1:] == argv
    assert sandbox.wrap(argv, "/c", ENVIRONMENT, Box("command", command=("box", "{command}")), SCENE)[1:] == tuple(argv)
    assert sandbox.wrap(argv, "/c", ENVIRONMENT, Box("bwrap"), SCENE)[-len(argv) :] == tuple(argv)


def test_a_moved_folder_is_found_and_the_login_only_when_it_is_the_credential() -> None:
    environment = {"CLAUDE_CONFIG_DIR": "/data/claude", "XDG_CONFIG_HOME": "/data/config"}
    files = dict((inside, (real, rw)) for real, inside, rw in sandbox.wanted(environment, SCENE))
    assert files["/home/ann/.claude/settings.json"] == ("/data/claude/settings.json", False)
    assert files["/home/ann/.config/git/config"] == ("/data/config/git/config", False)
    assert "/home/ann/.claude/.credentials.json" not in files
    from dataclasses import replace

    logged_in = sandbox.wanted(environment, replace(SCENE, login=True))
    assert ("/data/claude/.credentials.json", "/home/ann/.claude/.credentials.json", True) in logged_in
    inside = sandbox.environment_of({**environment, "A": "b"}, Box("bwrap"), SCENE)
    assert inside == {"A": "b", "HOME": "/home/ann", "TMPDIR": SCENE.tmp}
