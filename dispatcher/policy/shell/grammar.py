"""Words and operators -> simple commands: lists, pipes, groups, loops, conditions, functions and redirections."""

from __future__ import annotations

import re
from dataclasses import replace

from dispatcher.policy.shell.shapes import (
    ASSIGNMENT,
    QUOTED,
    SAFE,
    UNKNOWN,
    Command,
    NotUnderstood,
    State,
    Token,
    plain_path,
)
from dispatcher.policy.shell.wrappers import unwrap

_INSIDE = frozenset({"then", "elif", "else", "do", "!", "time", "coproc"})
_COMPOUND = {"{": "}", "if": "fi", "while": "done", "until": "done", "for": "done", "select": "done"}
_CLOSING = frozenset({*_COMPOUND.values(), "esac"})
_TESTS = {"[[": "]]", "((": "))"}
_BETWEEN = ("&&", "||", ";", "&", "\n")
_BRANCH_ENDS = (";;", ";&", ";;&")


def parse(tokens: list[Token], state: State) -> None:
    """Adds what it finds to the state."""
    _Parser(tokens, state).parse()


class _Parser:
    def __init__(self, tokens: list[Token], state: State) -> None:
        self.tokens = tokens
        self.state = state
        self.at = 0

    def parse(self) -> None:
        self._list()
        if self.at < len(self.tokens):
            raise NotUnderstood(f"{self.tokens[self.at].text!r} is not expected here")

    def _peek(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _list(self, end: str = "") -> None:
        """Pipelines up to a closing bracket or the reserved word `end`."""
        while (token := self._peek()) is not None:
            if end and token.text == end and token.word is not None and not token.word.quoted:
                return
            if token.is_op(*_BETWEEN, *_BRANCH_ENDS):
                self.at += 1
            elif token.is_op(")"):
                return
            else:
                self._pipeline()

    def _pipeline(self) -> None:
        """Commands joined by pipes; a group as a member makes what it feeds and reads unknown, but named."""
        stages: list[list[Command]] = []
        while True:
            begin = len(self.state.found)
            self._command()
            stages.append(self.state.found[begin:])
            token = self._peek()
            if token is None or not token.is_op("|", "|&"):
                break
            self.at += 1
            self._skip_lines()
            if self._peek() is None:
                raise NotUnderstood("it ends in a pipe")
        if len(stages) > 1:
            self._join(stages)

    def _join(self, stages: list[list[Command]]) -> None:
        feeders: list[tuple[str, ...]] = []
        texts: list[str] = []
        start = len(self.state.found) - sum(map(len, stages))
        for number, stage in enumerate(stages):
            if number:
                for place in range(start, start + len(stage)):
                    old = self.state.found[place]
                    self.state.found[place] = replace(
                        old, reads_pipe=True, feeders=(*old.feeders, *feeders), mentions=(*old.mentions, *texts)
                    )
            feeders += [command.words for command in stage]
            texts += [text for command in stage for text in command.mentions]
            start += len(stage)

    def _command(self) -> None:
        token = self._peek()
        if token is None:
            raise NotUnderstood("a command is missing")
        if token.is_op("("):
            self.at += 1
            self._group()
        elif token.kind == "op":
            raise NotUnderstood(f"{token.text!r} is not expected here")
        elif not self._keyword(token):
            self._simple()

    def _group(self) -> None:
        begin = len(self.state.found)
        variables, folders = dict(self.state.variables), self.state.folders
        self._list()
        token = self._peek()
        if token is None or token.text != ")":
            raise NotUnderstood("a bracket has no end")
        self.at += 1
        self.state.variables, self.state.folders = variables, folders
        self._after_group(begin)

    def _after_group(self, begin: int) -> None:
        """Redirections of a whole group hold for each command in it."""
        writes, text = self._redirections()
        for place in range(begin, len(self.state.found)):
            old = self.state.found[place]
            self.state.found[place] = replace(
                old,
                writes=(*old.writes, *writes),
                stdin_text=old.stdin_text if text is None else text,
                mentions=old.mentions if text is None else (*old.mentions, text),
            )
        if text is not None and len(self.state.found) > begin:
            self._feed_again(begin)

    def _feed_again(self, begin: int) -> None:
        """A shell in the group reads the text."""
        for command in self.state.found[begin:]:
            if command.words[1:] == ("(stdin)",) and command.stdin_text is not None:
                self.state.nested(command.stdin_text, command.words[0])

    def _redirections(self) -> tuple[list[str], str | None]:
        """Files that are written, and the text that is read."""
        writes: list[str] = []
        text: str | None = None
        while (token := self._peek()) is not None and token.kind == "redirect":
            self.at += 1
            text = self._redirection(token, writes, text)
        return writes, text

    def _redirection(self, token: Token, writes: list[str], text: str | None) -> str | None:
        """Adds to `writes`; gives the text that is read from now on."""
        if token.text == "<<":
            return token.body
        target = self._target()
        if token.text == "<<<":
            return target
        device = target.startswith(("/dev/tcp/", "/dev/udp/"))  # opening it sends, also for reading
        file = token.text == ">&" and not re.fullmatch(r"\d+-?|-", target)
        if device or file or token.text in (">", ">>", ">|", "<>"):
            writes.append(target)
        return text

    def _target(self) -> str:
        token = self._peek()
        if token is None or token.kind != "word":
            raise NotUnderstood("a redirection leads nowhere")
        self.at += 1
        return token.text

    def _keyword(self, token: Token) -> bool:
        """Reserved words at the place of a command: they start and end lists, and are no programs."""
        if token.word is None or token.word.quoted:
            return False
        text = token.text
        if text in _CLOSING:
            raise NotUnderstood(f"{text!r} is not expected here")
        if text in _INSIDE:
            self._inside(text)
        elif text in _COMPOUND:
            self._compound(text)
        elif text == "case":
            begin = len(self.state.found)
            self._case()
            self._after_group(begin)
        elif text == "function":
            self.at += 1
            self.state.functions.add(self._target())
        elif text in _TESTS:
            self._test(_TESTS[text])
        elif self._defines_function():
            self.state.functions.add(text)
            self.at += 3
        else:
            return False
        return True

    def _inside(self, text: str) -> None:
        self.at += 1
        following = self._peek()
        if text == "time" and following is not None and following.text == "-p":
            self.at += 1
        if text in ("!", "time", "coproc") and following is not None:
            self._command()

    def _compound(self, text: str) -> None:
        begin = len(self.state.found)
        if text in ("for", "select"):
            self._loop()
        else:
            self.at += 1
        self._list(_COMPOUND[text])
        if self._peek() is None or self._target() != _COMPOUND[text]:
            raise NotUnderstood(f"{text!r} has no end")
        self._after_group(begin)

    def _defines_function(self) -> bool:
        following = [token.text for token in self.tokens[self.at + 1 : self.at + 3]]
        return following == ["(", ")"]

    def _loop(self) -> None:
        self.at += 1
        name = self._target()
        values: list[str] = []
        token = self._peek()
        if token is not None and token.is_word("in"):
            self.at += 1
            while (token := self._peek()) is not None and token.kind == "word":
                values.append(token.text)
                self.at += 1
        one = len(values) == 1 and not re.search(r"[*?\[]", values[0])
        several = QUOTED + SAFE if values and all(map(plain_path, values)) else UNKNOWN
        self.state.set(name, values[0] if one else several)

    def _case(self) -> None:
        """`case WORD in PATTERN) list ;; ... esac`: the patterns are skipped."""
        self.at += 1
        self._target()
        self._skip_lines()
        if self._target() != "in":
            raise NotUnderstood("a case without in")
        while True:
            self._skip_lines()
            token = self._peek()
            if token is not None and token.is_word("esac"):
                self.at += 1
                return
            while (token := self._peek()) is not None and not token.is_op(")"):
                self.at += 1
            if token is None:
                raise NotUnderstood("a case has no end")
            self.at += 1
            self._branch()

    def _branch(self) -> None:
        while (token := self._peek()) is not None and not token.is_word("esac"):
            if token.is_op(*_BRANCH_ENDS):
                self.at += 1
                return
            if token.is_op(*_BETWEEN):
                self.at += 1
            else:
                self._pipeline()

    def _skip_lines(self) -> None:
        while (token := self._peek()) is not None and token.is_op("\n"):
            self.at += 1

    def _test(self, end: str) -> None:
        while (token := self._peek()) is not None:
            self.at += 1
            if token.is_word(end):
                return
        raise NotUnderstood("a test has no end")

    def _simple(self) -> None:
        words: list[Token] = []
        writes: list[str] = []
        text: str | None = None
        while (token := self._peek()) is not None and token.kind != "op":
            self.at += 1
            if token.kind == "word":
                words.append(token)
            else:
                text = self._redirection(token, writes, text)
        plain = self._assignments(words)
        mentions = () if text is None else (text,)
        shared = Command(
            (), tuple(writes), mentions, stdin_text=text, moved=self.state.moved, folders=self.state.folders
        )
        self._start(plain, shared)

    def _assignments(self, words: list[Token]) -> list[Token]:
        """Takes the assignments that stand first, and gives the words after them."""
        for place, token in enumerate(words):
            match = ASSIGNMENT.match(token.text)
            if match is None:
                return words[place:]
            value = token.text[match.end() :]
            if match[2]:
                value = self.state.variables.get(match[1], UNKNOWN) + value
            self.state.set(match[1], value)
        return []

    def _start(self, tokens: list[Token], shared: Command) -> None:
        if not tokens:
            if shared.writes:
                self.state.found.append(replace(shared, words=("(redirection)",)))
            return
        name, words = tokens[0], [token.text for token in tokens]
        if name.text in (QUOTED, UNKNOWN) and name.word is not None and name.word.arguments and self.state.functions:
            self.state.forwards = True  # what it runs is named where the function is called
            self.state.found.append(replace(shared, words=("(arguments)",)))
            return
        if name.word is not None and name.word.wild and name.text not in ("[", "[["):
            words[0] += UNKNOWN  # a glob as the name of the program may be anything
        unwrap(words, self.state, shared)
