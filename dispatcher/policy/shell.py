"""Shell text -> the simple commands that it would start, each as words. Reads; never runs anything.

Written for one question: may this run without asking? So whatever is not surely understood raises `NotUnderstood` or
becomes a word with a mark in it, and the caller asks. Understood: quotes, escapes, comments, lists, pipes, subshells,
groups, loops, conditions, functions, redirections, here-documents, command and process substitution, brace expansion,
and variables that the same text sets. Not understood: whatever else a variable, a file or a program would give.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

UNKNOWN = "\x00"  # stands for text that only the run will know, unquoted: it may become several words
QUOTED = "\x01"  # the same inside quotes: one word, or a part of one

_OPERATORS = ("&&", "||", ";;&", ";;", ";&", "|&", "&>>", "&>", "|", "&", ";", "(", ")", "\n")
_REDIRECTIONS = ("<<<", "<<-", "<<", "<>", "<&", ">>", ">|", ">&", "<", ">")
_INSIDE = frozenset({"then", "elif", "else", "do", "!", "time", "coproc"})
_COMPOUND = {"{": "}", "if": "fi", "while": "done", "until": "done", "for": "done", "select": "done"}
_CLOSING = frozenset({*_COMPOUND.values(), "esac"})
_DEEPEST = 12
_LONGEST = 200_000


class NotUnderstood(ValueError):
    """The text is not what this reader knows; the message says where it stopped."""


@dataclass(frozen=True)
class Command:
    """One program with its arguments, as far as the text tells. Marks stand for what it does not."""

    words: tuple[str, ...]
    writes: tuple[str, ...] = ()  # files that its output goes to
    mentions: tuple[str, ...] = ()  # here-documents and other texts that it is given
    reads_pipe: bool = False  # its standard input is what another command writes
    feeders: tuple[tuple[str, ...], ...] = ()  # the commands that write it, whole pipeline
    stdin_text: str | None = None  # a here-document or here-string
    moved: bool = False  # a `cd` before it may have led elsewhere
    unclear: str = ""


@dataclass
class _Word:
    text: str = ""
    quoted: bool = False  # some part was quoted: it is no operator and no keyword
    wild: bool = False  # an unquoted glob
    arguments: bool = False  # `$@` or `$*` is in it


@dataclass(frozen=True)
class _Token:
    kind: str  # word, op, redirect
    text: str
    word: _Word | None = None
    body: str | None = None  # of a here-document
    literal: bool = False  # of a here-document whose delimiter is quoted


@dataclass
class _State:
    """What one script has told so far; nested texts share it."""

    variables: dict[str, str] = field(default_factory=dict)
    found: list[Command] = field(default_factory=list)
    moved: bool = False
    depth: int = 0
    functions: set[str] = field(default_factory=set)
    forwards: bool = False  # one of them runs its own arguments


def read(text: str) -> list[Command]:
    """Every simple command in it, also those of substitutions and nested shells. Raises NotUnderstood."""
    state = _State()
    if _FORWARDS.search(text):  # substitutions are read before the functions that they call
        state.functions = {name for match in _DEFINES.finditer(text) for name in match.groups() if name}
        state.forwards = bool(state.functions)
    _script(text, state)
    return state.found


_DEFINES = re.compile(r"([\w.-]+)\s*\(\s*\)|\bfunction\s+([\w.-]+)")
_FORWARDS = re.compile(r"(?:^|[;&|{(!\n]|\b(?:then|do|else|elif|if|while|until|exec|command|time|env))\s*\"?\$\{?[@*]")


def nested(text: str, state: _State, why: str) -> None:
    """A text that the command gives to another shell."""
    if UNKNOWN in text or QUOTED in text:
        state.found.append(Command((), unclear=f"{why}: what it runs cannot be told"))
        return
    _script(text, state)


def _script(text: str, state: _State) -> None:
    if len(text) > _LONGEST:
        raise NotUnderstood("it is too long")
    state.depth += 1
    if state.depth > _DEEPEST:
        raise NotUnderstood("it is nested too deeply")
    _Parser(list(_Lexer(text, state).tokens()), state).parse()
    state.depth -= 1


# --- words --------------------------------------------------------------------------------------------------------


class _Lexer:
    def __init__(self, text: str, state: _State) -> None:
        if "\x00" in text or "\x01" in text:
            raise NotUnderstood("it holds control characters")
        self.text = text.replace("\\\r\n", "").replace("\\\n", "")
        self.at = 0
        self.state = state
        self.waiting: list[tuple[str, bool, bool, int]] = []  # here-documents: delimiter, literal, strip tabs, token
        self.made: list[_Token] = []

    def tokens(self) -> list[_Token]:
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in " \t\r":
                self.at += 1
            elif character == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif not self._operator():
                self._add_word()
        if self.waiting:
            raise NotUnderstood("a here-document has no end")
        return self.made

    def _operator(self) -> bool:
        for sign in ("&>>", "&>"):
            if self.text.startswith(sign, self.at):
                self.at += len(sign)
                self.made.append(_Token("redirect", ">"))
                return True
        if self.text.startswith(("<(", ">("), self.at):
            return False
        for sign in _REDIRECTIONS:
            if self.text.startswith(sign, self.at):
                self.at += len(sign)
                self._redirect(sign)
                return True
        for sign in _OPERATORS:
            if self.text.startswith(sign, self.at):
                self.at += len(sign)
                self.made.append(_Token("op", sign))
                if sign == "\n":
                    self._documents()
                return True
        return False

    def _redirect(self, sign: str) -> None:
        last = self.made[-1] if self.made else None
        if last is not None and last.kind == "word" and last.word is not None and not last.word.quoted:
            joined = self.text[self.at - len(sign) - 1 : self.at - len(sign)]
            if joined and joined not in " \t\n" and (last.text.isdigit() or re.fullmatch(r"\{\w+\}", last.text)):
                self.made.pop()  # the number of the descriptor
        if sign in ("<<", "<<-"):
            while self.at < len(self.text) and self.text[self.at] in " \t":
                self.at += 1
            word = self._word()
            self.made.append(_Token("redirect", "<<"))
            self.waiting.append((word.text, word.quoted, sign == "<<-", len(self.made) - 1))
        else:
            self.made.append(_Token("redirect", sign))

    def _documents(self) -> None:
        for delimiter, literal, strip, place in self.waiting:
            lines: list[str] = []
            while True:
                if self.at >= len(self.text):
                    raise NotUnderstood("a here-document has no end")
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = min(end + 1, len(self.text))
                line = line.lstrip("\t") if strip else line
                if line == delimiter:
                    break
                lines.append(line)
            body = "\n".join(lines)
            if not literal:
                body = self._expanded(body)
            self.made[place] = replace(self.made[place], body=body, literal=literal)
        self.waiting.clear()

    def _expanded(self, body: str) -> str:
        """A here-document whose delimiter is not quoted: substitutions in it run."""
        inner = _Lexer(body, self.state)
        word = _Word()
        while inner.at < len(inner.text):
            character = inner.text[inner.at]
            if character == "\\" and inner.text[inner.at + 1 : inner.at + 2] in ("$", "`", "\\"):
                word.text += inner.text[inner.at + 1]
                inner.at += 2
            elif character in "$`":
                inner._dollar(word, quoted=True)
            else:
                word.text += character
                inner.at += 1
        return word.text

    def _add_word(self) -> None:
        word = self._word()
        for text in _braces(word.text) if not word.quoted else [word.text]:
            pieces = self._split(text, word)
            self.made += [_Token("word", piece, replace(word, text=piece)) for piece in pieces]

    def _split(self, text: str, word: _Word) -> list[str]:
        """A known variable outside quotes becomes words at its blanks, unless the word is an assignment."""
        return text.split(_SPLIT) if _SPLIT in text and not _ASSIGNMENT.match(text) else [text.replace(_SPLIT, " ")]

    def _word(self) -> _Word:
        word = _Word()
        start = self.at
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in " \t\r\n;|&()<>":
                if character in "<>" and self.text.startswith(("<(", ">("), self.at):
                    self._substitution(self.at + 2, word, quoted=True, file=True)
                    continue
                if character == "(" and self.at > start and word.text[-1:] in "=?*+@!" and not word.quoted:
                    self._array_or_glob(word)
                    continue
                break
            self._piece(word, character)
        if self.at == start:
            raise NotUnderstood(f"{self.text[start : start + 10]!r} is not expected here")
        return word

    def _array_or_glob(self, word: _Word) -> None:
        """`a=(...)` and `@(...)`: what becomes of them is not followed."""
        if not word.text.endswith("="):
            raise NotUnderstood("an extended glob")
        end = _closing(self.text, self.at)
        inner = self.text[self.at + 1 : end]
        if "$(" in inner or "`" in inner:
            nested_text = _Lexer(inner, self.state)
            nested_text.tokens()
        self.at = end + 1
        word.text += UNKNOWN

    def _piece(self, word: _Word, character: str) -> None:
        if character == "\\":
            if self.at + 1 >= len(self.text):
                raise NotUnderstood("it ends in a backslash")
            word.text += self.text[self.at + 1]
            word.quoted = True
            self.at += 2
        elif character == "'":
            end = self.text.find("'", self.at + 1)
            if end < 0:
                raise NotUnderstood("a quote has no end")
            word.text += self.text[self.at + 1 : end]
            word.quoted = True
            self.at = end + 1
        elif character == '"':
            self.at += 1
            word.quoted = True
            self._double(word)
        elif character in "$`":
            self._dollar(word, quoted=False)
        else:
            word.wild = word.wild or character in "*?["
            word.text += character
            self.at += 1

    def _double(self, word: _Word) -> None:
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == '"':
                self.at += 1
                return
            if character == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`"):
                word.text += self.text[self.at + 1]
                self.at += 2
            elif character in "$`":
                self._dollar(word, quoted=True)
            else:
                word.text += character
                self.at += 1
        raise NotUnderstood("a quote has no end")

    def _dollar(self, word: _Word, *, quoted: bool) -> None:
        text, at = self.text, self.at
        if text[at] == "`":
            end = at + 1
            while end < len(text) and text[end] != "`":
                end += 2 if text[end] == "\\" else 1
            if end >= len(text):
                raise NotUnderstood("a backquote has no end")
            self._run_inner(re.sub(r"\\([`\\$])", r"\1", text[at + 1 : end]))
            self.at = end + 1
            word.text += QUOTED if quoted else UNKNOWN
        elif text.startswith("$((", at) and (after := _arithmetic(text, at)) is not None:
            if "$(" in text[at + 3 : after] or "`" in text[at + 3 : after]:
                raise NotUnderstood("a command inside arithmetic")
            self.at = after
            word.text += QUOTED
        elif text.startswith("$(", at):
            self._substitution(at + 2, word, quoted=quoted)
        elif text.startswith("${", at):
            self._parameter(word, quoted)
        elif text.startswith("$'", at) and not quoted:
            self._ansi(word)
        elif text.startswith('$"', at) and not quoted:
            self.at += 1
        else:
            self._variable(word, quoted)

    def _substitution(self, start: int, word: _Word, *, quoted: bool, file: bool = False) -> None:
        """`file`: a process substitution, whose word is the name of a pipe."""
        end = _closing(self.text, start - 1)
        inner = self.text[start:end]
        self.at = end + 1
        self._run_inner(inner)
        said = None if file else _echoed(inner)
        if said is not None:
            word.text += said if quoted else said.replace(" ", _SPLIT)
        else:
            word.text += QUOTED if quoted else UNKNOWN

    def _run_inner(self, inner: str) -> None:
        _script(inner, self.state)

    def _parameter(self, word: _Word, quoted: bool) -> None:
        end = _closing(self.text, self.at + 1, "{", "}")
        inner = self.text[self.at + 2 : end]
        self.at = end + 1
        if "$(" in inner or "`" in inner:
            for match in re.finditer(r"\$\(", inner):
                _script(inner[match.end() : _closing(inner, match.end() - 1)], self.state)
            if "`" in inner:
                raise NotUnderstood("a backquote inside a parameter")
        known = self.state.variables.get(inner) if re.fullmatch(r"\w+", inner) else None
        self._value(word, known, quoted)

    def _variable(self, word: _Word, quoted: bool) -> None:
        match = re.compile(r"\$(\w+|[@*#?$!-])").match(self.text, self.at)
        if match is None:
            word.text += "$"
            self.at += 1
            return
        name = match[1]
        if name[0].isdigit():
            name = name[0]
        self.at += 1 + len(name)
        word.arguments = word.arguments or name in ("@", "*")
        self._value(word, self.state.variables.get(name), quoted)

    def _value(self, word: _Word, known: str | None, quoted: bool) -> None:
        if known is None:
            word.text += QUOTED if quoted else UNKNOWN
        else:
            word.text += known if quoted else known.replace(" ", _SPLIT)

    def _ansi(self, word: _Word) -> None:
        end = self.at + 2
        while end < len(self.text) and self.text[end] != "'":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise NotUnderstood("a quote has no end")
        word.text += _ansi_text(self.text[self.at + 2 : end])
        word.quoted = True
        self.at = end + 1


_SPLIT = "\x02"  # a blank of an unquoted value, at which words are made
_ASSIGNMENT = re.compile(r"^(\w+)(\+?)=", re.ASCII)
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "e": "\x1b",
         "E": "\x1b", "f": "\f", "v": "\v", "?": "?"}  # fmt: skip


def _ansi_text(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in _ANSI:
            return _ANSI[code[0]]
        number = int(code[1:], 16) if code[0] in "xuU" else int(code, 8)
        if number in (0, 1, 2) or number > 0x10FFFF:
            raise NotUnderstood("an escape of a control character")
        return chr(number)

    pattern = r"\\([ntr\\'\"abeEfv?]|x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3})"
    return re.sub(pattern, one, text)


def _echoed(inner: str) -> str | None:
    """What `$(echo git)` and `$(printf %s git)` give; None for everything else."""
    match = re.fullmatch(r"\s*(?:echo|printf\s+%s)\s+([\w ./-]+?)\s*", inner)
    return match[1] if match else None


def _closing(text: str, start: int, opening: str = "(", closing: str = ")") -> int:
    """The place of the bracket that closes the one at `start`; quotes are skipped."""
    depth, at = 0, start
    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 2
            continue
        if character == "'" and opening == "(":
            at = text.find("'", at + 1)
            if at < 0:
                break
        elif character == '"':
            at = _quote_end(text, at + 1)
        elif character == opening:
            depth += 1
        elif character == closing:
            depth -= 1
            if depth == 0:
                return at
        elif character == "#" and opening == "(" and text[at - 1] in " \t\n;(":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            continue
        at += 1
    raise NotUnderstood(f"a {opening} has no end")


def _quote_end(text: str, at: int) -> int:
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == '"':
            return at
        elif text.startswith("$(", at):
            at = _closing(text, at + 1) + 1
        else:
            at += 1
    raise NotUnderstood("a quote has no end")


def _arithmetic(text: str, start: int) -> int | None:
    """The place after `$(( ... ))`; None when it is a subshell inside a substitution."""
    end = _closing(text, start + 1)
    return end + 1 if text[end - 1 : end + 1] == "))" and _closing(text, start + 2) == end - 1 else None


def _braces(text: str) -> list[str]:
    """`a{b,c}d` -> abd, acd. Nested ones and ranges too; at most a hundred words."""
    for match in re.finditer(r"\{", text):
        if match.start() and text[match.start() - 1] == "$":
            continue
        depth, cuts = 0, [match.start()]
        for at in range(match.start(), len(text)):
            depth += (text[at] == "{") - (text[at] == "}")
            if text[at] == "," and depth == 1:
                cuts.append(at)
            if depth == 0:
                inner = text[match.start() + 1 : at]
                if len(cuts) > 1:
                    cuts.append(at)
                    choices = [text[a + 1 : b] for a, b in pairwise(cuts)]
                elif re.fullmatch(r"(-?\d+|\w)\.\.(-?\d+|\w)(\.\.-?\d+)?", inner):
                    choices = [UNKNOWN]
                else:
                    break
                made = [text[: match.start()] + choice + rest for choice in choices for rest in _braces(text[at + 1 :])]
                made = [one for word in made for one in _braces(word)]
                if len(made) > 100:
                    raise NotUnderstood("too many words in braces")
                return made
    return [text]


# --- commands -----------------------------------------------------------------------------------------------------


class _Parser:
    def __init__(self, tokens: list[_Token], state: _State) -> None:
        self.tokens = tokens
        self.state = state
        self.at = 0

    def parse(self) -> None:
        self._list()
        if self.at < len(self.tokens):
            raise NotUnderstood(f"{self.tokens[self.at].text!r} is not expected here")

    def _peek(self) -> _Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _list(self, end: str = "") -> None:
        """Pipelines up to a closing bracket or the reserved word `end`."""
        while (token := self._peek()) is not None:
            if end and token.text == end and token.word is not None and not token.word.quoted:
                return
            if token.kind == "op" and token.text in ("&&", "||", ";", "&", "\n", ";;", ";&", ";;&"):
                self.at += 1
                continue
            if token.kind == "op" and token.text == ")":
                return
            self._pipeline()

    def _pipeline(self) -> None:
        """Commands joined by pipes; a group as a member makes what it feeds and reads unknown, but named."""
        stages: list[list[Command]] = []
        while True:
            begin = len(self.state.found)
            self._command()
            stages.append(self.state.found[begin:])
            token = self._peek()
            if token is None or token.kind != "op" or token.text not in ("|", "|&"):
                break
            self.at += 1
            while (token := self._peek()) is not None and token.kind == "op" and token.text == "\n":
                self.at += 1
            if token is None:
                raise NotUnderstood("it ends in a pipe")
        if len(stages) > 1:
            self._join(stages)

    def _join(self, stages: list[list[Command]]) -> None:
        feeders: list[tuple[str, ...]] = []
        start = len(self.state.found) - sum(map(len, stages))
        for number, stage in enumerate(stages):
            if number:
                for place in range(start, start + len(stage)):
                    old = self.state.found[place]
                    self.state.found[place] = replace(old, reads_pipe=True, feeders=(*old.feeders, *feeders))
            feeders += [command.words for command in stage]
            start += len(stage)

    def _command(self) -> None:
        token = self._peek()
        if token is None:
            raise NotUnderstood("a command is missing")
        if token.kind == "op":
            if token.text != "(":
                raise NotUnderstood(f"{token.text!r} is not expected here")
            self.at += 1
            self._group()
            return
        if self._keyword(token):
            return
        self._simple()

    def _group(self) -> None:
        begin = len(self.state.found)
        moved, variables = self.state.moved, dict(self.state.variables)
        self._list()
        token = self._peek()
        if token is None or token.text != ")":
            raise NotUnderstood("a bracket has no end")
        self.at += 1
        self.state.moved = self.state.moved or moved
        self.state.variables = variables
        self._after_group(begin)

    def _after_group(self, begin: int) -> None:
        """Redirections of a whole group hold for each command in it."""
        writes, text = self._redirections()
        for place in range(begin, len(self.state.found)):
            old = self.state.found[place]
            given = old.stdin_text if text is None else text
            self.state.found[place] = replace(old, writes=(*old.writes, *writes), stdin_text=given)
        if text is not None and len(self.state.found) > begin:
            self._feed_again(begin)

    def _feed_again(self, begin: int) -> None:
        """A shell in the group reads the text."""
        for command in self.state.found[begin:]:
            if command.words[1:] == ("(stdin)",) and command.stdin_text is not None:
                nested(command.stdin_text, self.state, command.words[0])

    def _redirections(self) -> tuple[list[str], str | None]:
        writes: list[str] = []
        text: str | None = None
        while (token := self._peek()) is not None and token.kind == "redirect":
            self.at += 1
            text = self._redirect(token, writes) if token.text in ("<<", "<<<") else self._file(token, writes, text)
        return writes, text

    def _file(self, token: _Token, writes: list[str], text: str | None) -> str | None:
        target = self._target()
        if token.text in (">", ">>", ">|", "<>") or (token.text == ">&" and not re.fullmatch(r"\d+-?|-", target)):
            writes.append(target)
        return text

    def _redirect(self, token: _Token, writes: list[str]) -> str | None:
        return token.body if token.text == "<<" else self._target()

    def _target(self) -> str:
        token = self._peek()
        if token is None or token.kind != "word":
            raise NotUnderstood("a redirection leads nowhere")
        self.at += 1
        return token.text

    def _keyword(self, token: _Token) -> bool:
        """Reserved words at the place of a command: they start and end lists, and are no programs."""
        if token.word is None or token.word.quoted:
            return False
        text = token.text
        if text in _INSIDE:
            self._inside(text)
            return True
        if text in _CLOSING:
            raise NotUnderstood(f"{text!r} is not expected here")
        if text in _COMPOUND:
            self._compound(text)
            return True
        if text == "case":
            begin = len(self.state.found)
            self._case()
            self._after_group(begin)
            return True
        if text == "function":
            self.at += 1
            self.state.functions.add(self._target())
            return True
        if text in ("[[", "(("):
            self._test()
            return True
        if self._defines_function():
            self.state.functions.add(text)
            self.at += 3
            return True
        return False

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
        if token is not None and token.kind == "word" and token.text == "in":
            self.at += 1
            while (token := self._peek()) is not None and token.kind == "word":
                values.append(token.text)
                self.at += 1
        known = values[0] if len(values) == 1 else None
        self._set(name, known if known is not None and not re.search(r"[*?\[]", known) else UNKNOWN)

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
            if token is None:
                raise NotUnderstood("a case has no end")
            if token.kind == "word" and token.text == "esac":
                self.at += 1
                return
            while (token := self._peek()) is not None and not (token.kind == "op" and token.text == ")"):
                self.at += 1
            if token is None:
                raise NotUnderstood("a case has no end")
            self.at += 1
            self._branch()

    def _branch(self) -> None:
        while (token := self._peek()) is not None:
            if token.kind == "op" and token.text in (";;", ";&", ";;&"):
                self.at += 1
                return
            if token.kind == "word" and token.text == "esac":
                return
            if token.kind == "op" and token.text in ("&&", "||", ";", "&", "\n"):
                self.at += 1
                continue
            self._pipeline()

    def _skip_lines(self) -> None:
        while (token := self._peek()) is not None and token.kind == "op" and token.text == "\n":
            self.at += 1

    def _test(self) -> None:
        end = {"[[": "]]", "((": "))"}[self.tokens[self.at].text]
        while (token := self._peek()) is not None:
            self.at += 1
            if token.kind == "word" and token.text == end:
                return
        raise NotUnderstood("a test has no end")

    def _simple(self) -> None:
        words: list[_Token] = []
        writes: list[str] = []
        text: str | None = None
        while (token := self._peek()) is not None and token.kind != "op":
            self.at += 1
            if token.kind == "word":
                words.append(token)
            elif token.text in ("<<", "<<<"):
                text = self._redirect(token, writes)
            else:
                self._file(token, writes, text)
        assigned = True
        plain: list[str] = []
        for token in words:
            if assigned and (match := _ASSIGNMENT.match(token.text)):
                self._assign(match, token)
                continue
            assigned = False
            plain.append(token.text)
        shared = Command((), writes=tuple(writes), stdin_text=text, moved=self.state.moved)
        if not plain:
            if writes:
                self.state.found.append(replace(shared, words=("(redirection)",)))
            return
        named = next(token for token in words if token.text == plain[0])
        if plain[0] in (QUOTED, UNKNOWN) and named.word is not None and named.word.arguments and self.state.functions:
            self.state.forwards = True  # what it runs is named where the function is called
            self.state.found.append(replace(shared, words=("(arguments)",)))
            return
        self._known_words(words, plain)
        _unwrap(plain, self.state, shared)

    def _known_words(self, tokens: list[_Token], plain: list[str]) -> None:
        """A glob as the name of the program may be anything."""
        first = next(token for token in tokens if token.text == plain[0])
        if first.word is not None and first.word.wild and plain[0] not in ("[", "[["):
            plain[0] += UNKNOWN

    def _assign(self, match: re.Match[str], token: _Token) -> None:
        value = token.text[match.end() :]
        name = match[1]
        if match[2]:
            value = self.state.variables.get(name, UNKNOWN) + value
        self._set(name, value)

    def _set(self, name: str, value: str) -> None:
        """A value that changes later would be wrong in a loop: a second, different one makes it unknown."""
        old = self.state.variables.get(name)
        self.state.variables[name] = value if old is None or old == value else UNKNOWN


# --- programs that run other programs -----------------------------------------------------------------------------

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash"})
SHELLS = _SHELLS

# options of a wrapper that take a word of their own; the program comes after all options
_WRAPPERS: dict[str, tuple[str, ...]] = {
    "env": ("-u", "--unset", "-C", "--chdir"),
    "command": (), "builtin": (), "exec": ("-a",), "nohup": (), "setsid": (), "time": ("-o", "-f"),
    "nice": ("-n", "--adjustment"), "ionice": ("-c", "-n", "-p"), "stdbuf": ("-i", "-o", "-e"),
    "timeout": ("-s", "--signal", "-k", "--kill-after"), "sudo": ("-u", "-g", "-h", "-p", "-C", "-r", "-t", "-U"),
    "doas": ("-u", "-C"), "chroot": (), "unshare": (), "strace": ("-o", "-e", "-p", "-s"), "ltrace": ("-o", "-e"),
    "xargs": ("-I", "-i", "-n", "-L", "-P", "-d", "-E", "-a", "-s", "--max-args", "--max-procs", "--delimiter",
              "--replace", "--arg-file"),
    "parallel": ("-j", "--jobs", "-a", "--arg-file", "-I", "-n", "-N", "--delay"),
    "flock": ("-w", "-E", "--timeout"), "watch": ("-n", "-d", "--interval"), "busybox": (), "toybox": (),
    "caffeinate": ("-t",), "chronic": (), "ts": (), "unbuffer": (), "catchsegv": (), "faketime": (),
    "firejail": (), "fakeroot": (), "dbus-run-session": (), "xvfb-run": ("-s", "-n"), "cpulimit": ("-l",),
    "taskset": (), "numactl": (), "prlimit": (), "setarch": (), "runuser": ("-u", "-g"), "gosu": (), "su-exec": (),
    "systemd-run": ("-p", "--unit", "-u"), "start-stop-daemon": (), "entr": (), "poetry": (), "pipenv": (), "uv": (),
    "npx": ("-p", "--package"), "bundle": (), "rtk": (), "direnv": (),
}  # fmt: skip
_SKIPS = {"timeout": 1, "chroot": 1, "flock": 1, "faketime": 1, "gosu": 1, "su-exec": 1, "taskset": 1, "setarch": 1}
_RUNNERS = {"poetry": "run", "pipenv": "run", "uv": "run", "bundle": "exec", "direnv": "exec"}


def base(word: str) -> str:
    """The name of a program without its folder; a mark in it means that it cannot be told."""
    return word.rpartition("/")[2]


def _unwrap(words: list[str], state: _State, shared: Command) -> None:
    """Add the command, or those that it runs in turn."""
    name = base(words[0])
    if UNKNOWN in name or QUOTED in name:
        said = "which program it runs cannot be told"
        state.found.append(replace(shared, words=(name, *words[1:]), unclear=said))
        return
    rest = words[1:]
    if rest and state.forwards and name in state.functions:
        _unwrap(rest, state, shared)
    elif name in _SHELLS:
        _shell(name, rest, state, shared)
    elif name in ("eval",):
        nested(" ".join(rest), state, "eval")
    elif name in (".", "source"):
        _source(name, rest, state, shared)
    elif name == "trap" and len(rest) > 1:
        nested(rest[0], state, "trap")
    elif name == "alias":
        _alias(rest, state)
    elif name in ("su", "script", "runuser") and any(word in ("-c", "--command") for word in rest):
        nested(_after(rest, ("-c", "--command")), state, name)
    elif name == "flock" and "-c" in rest:
        nested(_after(rest, ("-c",)), state, name)
    elif name in ("cd", "pushd", "popd", "chdir"):
        state.moved = state.moved or not rest or _leads_out(rest[-1])
        state.found.append(replace(shared, words=(name, *rest)))
    elif name in ("export", "declare", "typeset", "local", "readonly"):
        _declare(rest, state)
        state.found.append(replace(shared, words=(name, *rest)))
    elif name in ("read", "mapfile", "readarray", "getopts", "printf") and _forget(name, rest, state):
        state.found.append(replace(shared, words=(name, *rest)))
    elif name in _WRAPPERS:
        _wrapper(name, rest, state, shared)
    elif name in ("find", "fd", "fdfind"):
        _find(name, rest, state, shared)
    else:
        state.found.append(replace(shared, words=(name, *rest)))


def _leads_out(folder: str) -> bool:
    marks = UNKNOWN in folder or QUOTED in folder
    return marks or folder.startswith(("/", "~", "-")) or ".." in folder.split("/")


def _declare(words: list[str], state: _State) -> None:
    for word in words:
        if match := _ASSIGNMENT.match(word):
            old, value = state.variables.get(match[1]), word[match.end() :]
            state.variables[match[1]] = value if old in (None, value) else UNKNOWN


def _forget(name: str, words: list[str], state: _State) -> bool:
    """What these set is not in the text."""
    if name == "printf" and "-v" not in words:
        return False
    for word in words:
        if word.isidentifier():
            state.variables[word] = UNKNOWN
    return True


def _after(words: list[str], options: tuple[str, ...]) -> str:
    place = next(number for number, word in enumerate(words) if word in options)
    if place + 1 >= len(words):
        raise NotUnderstood(f"{words[place]} without its text")
    return words[place + 1]


def _shell(name: str, rest: list[str], state: _State, shared: Command) -> None:
    """`sh -c TEXT`, `sh FILE`, `sh` that reads its input."""
    at = 0
    takes = ("-o", "+o", "-O", "+O", "--rcfile", "--init-file")
    while at < len(rest) and (rest[at].startswith(("-", "+")) or UNKNOWN in rest[at][:1]):
        word = rest[at]
        if word == "-" or word == "--":
            at += 1
            break
        if not word.startswith("--") and re.fullmatch(r"[-+][A-Za-z]*c[A-Za-z]*", word):
            if at + 1 >= len(rest):
                raise NotUnderstood(f"{name} -c without its text")
            following = next((text for text in rest[at + 1 :] if not re.fullmatch(r"[-+][A-Za-z]+|--", text)), "")
            nested(following, state, f"{name} -c")
            return
        if not word.startswith("--") and re.fullmatch(r"-[A-Za-z]*s[A-Za-z]*", word):
            at = len(rest)
            break
        at += 2 if word in takes else 1
    file = rest[at] if at < len(rest) else ""
    if file in ("", "/dev/stdin", "/proc/self/fd/0", "/dev/fd/0"):
        if shared.stdin_text is not None:
            nested(shared.stdin_text, state, f"{name} with a text")
            return
        state.found.append(replace(shared, words=(name, "(stdin)")))
        return
    if QUOTED in file or UNKNOWN in file:
        unclear = f"which file {name} runs cannot be told"
        state.found.append(replace(shared, words=(name, *rest), unclear="" if "/" in file[1:] else unclear))
        return
    state.found.append(replace(shared, words=(name, *rest)))


def _source(name: str, rest: list[str], state: _State, shared: Command) -> None:
    file = rest[0] if rest else ""
    if file in (UNKNOWN, QUOTED, "", "/dev/stdin"):
        if shared.stdin_text is not None and file == "/dev/stdin":
            nested(shared.stdin_text, state, name)
            return
        state.found.append(replace(shared, words=(name, *rest), unclear=f"what {name} runs cannot be told"))
        return
    state.found.append(replace(shared, words=(name, *rest)))


def _alias(rest: list[str], state: _State) -> None:
    for word in rest:
        _, sign, value = word.partition("=")
        if sign:
            nested(value, state, "alias")


def _wrapper(name: str, rest: list[str], state: _State, shared: Command) -> None:
    takes = _WRAPPERS[name]
    at = 0
    if name in _RUNNERS:
        if not rest or rest[0] != _RUNNERS[name]:
            state.found.append(replace(shared, words=(name, *rest)))
            return
        at = 1
    while at < len(rest):
        word = rest[at]
        if word == "--":
            at += 1
            break
        if name == "env" and (word in ("-S", "--split-string") or word.startswith(("-S", "--split-string="))):
            text = rest[at + 1] if word in ("-S", "--split-string") else re.sub(r"^(-S|--split-string=)", "", word)
            after = rest[at + 2 :] if word in ("-S", "--split-string") else rest[at + 1 :]
            nested(" ".join([text, *after]), state, "env -S")
            return
        if name == "env" and _ASSIGNMENT.match(word):
            at += 1
        elif (word.startswith("-") and word != "-") or word[:1] in (UNKNOWN,):
            if word[:1] == UNKNOWN:
                break
            at += 2 if word in takes else 1
        elif name in ("sudo", "doas") and _ASSIGNMENT.match(word):
            at += 1
        else:
            break
    at += _SKIPS.get(name, 0)
    inner = rest[at:]
    if name == "npx" and "-c" in rest:
        nested(_after(rest, ("-c",)), state, "npx -c")
    elif not inner:
        state.found.append(replace(shared, words=(name, *rest)))
    elif name == "xargs":
        _unwrap([*inner, UNKNOWN], state, replace(shared, reads_pipe=True))
    elif name in ("parallel", "watch") and len(inner) == 1:
        nested(inner[0], state, name)
    else:
        _unwrap(inner, state, shared)


_EXEC = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"})


def _find(name: str, rest: list[str], state: _State, shared: Command) -> None:
    state.found.append(replace(shared, words=(name, *rest)))
    for at, word in enumerate(rest):
        if word in _EXEC:
            inner = list(_until_end(rest[at + 1 :]))
            if inner:
                _unwrap([UNKNOWN if "{}" in text and len(text) == 2 else text for text in inner], state, shared)


def _until_end(words: list[str]) -> Iterator[str]:
    for word in words:
        if word in (";", "+"):
            return
        yield word
