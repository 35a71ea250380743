"""Shell text -> words and operators: quotes, escapes, here-documents, variables and substitutions are done here."""

from __future__ import annotations

import re
from dataclasses import replace

from dispatcher.policy.shell.expansion import after_arithmetic, ansi, braces, closing, echoed, names_nothing
from dispatcher.policy.shell.shapes import ASSIGNMENT, QUOTED, SAFE, SPLIT, UNKNOWN, NotUnderstood, State, Token, Word

_OPERATORS = ("&&", "||", ";;&", ";;", ";&", "|&", "|", "&", ";", "(", ")", "\n")
_REDIRECTIONS = ("<<<", "<<-", "<<", "<>", "<&", ">>", ">|", ">&", "<", ">")

_MACHINE = {
    **dict.fromkeys(("TMPDIR", "TMP", "TEMP", "$", "!", "?", "#", "RANDOM", "SECONDS", "UID", "PPID"), QUOTED + SAFE),
    "HOME": "~", "PWD": ".",
}  # fmt: skip
_MOVES = r"\b(cd|pushd|popd|chdir)\b"


def cut(text: str, state: State) -> list[Token]:
    return _Lexer(text, state).tokens()


class _Lexer:
    def __init__(self, text: str, state: State) -> None:
        if any(mark in text for mark in (UNKNOWN, QUOTED, SPLIT, SAFE)):
            raise NotUnderstood("it holds control characters")
        self.text = text.replace("\\\r\n", "").replace("\\\n", "")
        self.at = 0
        self.state = state
        self.waiting: list[tuple[str, bool, bool, int]] = []  # here-documents: delimiter, literal, strip tabs, token
        self.made: list[Token] = []
        self.places: dict[str, int] = {}  # where a pattern stands first

    def tokens(self) -> list[Token]:
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
                self.made.append(Token("redirect", ">"))
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
                self.made.append(Token("op", sign))
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
            self.made.append(Token("redirect", "<<"))
            self.waiting.append((word.text, word.quoted, sign == "<<-", len(self.made) - 1))
        else:
            self.made.append(Token("redirect", sign))

    def _documents(self) -> None:
        """The texts of all here-documents that the line before named."""
        for delimiter, literal, strip, place in self.waiting:
            body = self._document(delimiter, strip)
            self.made[place] = replace(self.made[place], body=body if literal else self._expanded(body))
        self.waiting.clear()

    def _document(self, delimiter: str, strip: bool) -> str:
        lines: list[str] = []
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line = self.text[self.at : end]
            self.at = min(end + 1, len(self.text))
            line = line.lstrip("\t") if strip else line
            if line == delimiter:
                return "\n".join(lines)
            lines.append(line)
        raise NotUnderstood("a here-document has no end")

    def _expanded(self, body: str) -> str:
        """A here-document whose delimiter is not quoted: substitutions in it run."""
        inner = _Lexer(body, self.state)
        word = Word()
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
        for text in braces(word.text) if not word.quoted else [word.text]:
            self.made += [Token("word", piece, replace(word, text=piece)) for piece in _split(text)]

    def _word(self) -> Word:
        word = Word()
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

    def _array_or_glob(self, word: Word) -> None:
        """`a=(...)` and `@(...)`: what becomes of them is not followed."""
        if not word.text.endswith("="):
            raise NotUnderstood("an extended glob")
        end = closing(self.text, self.at)
        inner = self.text[self.at + 1 : end]
        if "$(" in inner or "`" in inner:
            _Lexer(inner, self.state).tokens()  # for what the substitutions run
        self.at = end + 1
        word.text += UNKNOWN

    def _piece(self, word: Word, character: str) -> None:
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

    def _double(self, word: Word) -> None:
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

    def _dollar(self, word: Word, *, quoted: bool) -> None:
        text, at = self.text, self.at
        if text[at] == "`":
            self._backquoted(word, quoted)
        elif text.startswith("$((", at) and (after := after_arithmetic(text, at)) is not None:
            if "$(" in text[at + 3 : after] or "`" in text[at + 3 : after]:
                raise NotUnderstood("a command inside arithmetic")
            self.at = after
            word.text += QUOTED + SAFE
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

    def _backquoted(self, word: Word, quoted: bool) -> None:
        end = self._end_of("`", self.at + 1, "a backquote")
        self._inner(re.sub(r"\\([`\\$])", r"\1", self.text[self.at + 1 : end]))
        self.at = end + 1
        word.text += QUOTED if quoted else UNKNOWN

    def _end_of(self, sign: str, at: int, what: str) -> int:
        """The place of the next such sign without a backslash."""
        while at < len(self.text) and self.text[at] != sign:
            at += 2 if self.text[at] == "\\" else 1
        if at >= len(self.text):
            raise NotUnderstood(f"{what} has no end")
        return at

    def _substitution(self, start: int, word: Word, *, quoted: bool, file: bool = False) -> None:
        """`file`: a process substitution, whose word is the name of a pipe."""
        end = closing(self.text, start - 1)
        inner = self.text[start:end]
        self.at = end + 1
        self._inner(inner)
        said = None if file else echoed(inner)
        if said is not None:
            word.text += said if quoted else said.replace(" ", SPLIT)
        elif names_nothing(inner):
            word.text += QUOTED + SAFE
        else:
            word.text += QUOTED if quoted else UNKNOWN

    def _parameter(self, word: Word, quoted: bool) -> None:
        end = closing(self.text, self.at + 1, "{", "}")
        inner = self.text[self.at + 2 : end]
        self.at = end + 1
        if "$(" in inner or "`" in inner:
            for match in re.finditer(r"\$\(", inner):
                self._inner(inner[match.end() : closing(inner, match.end() - 1)])
            if "`" in inner:
                raise NotUnderstood("a backquote inside a parameter")
        named = re.match(r"(\w+)($|%|:?-/tmp/?$)", inner)
        known = self._known(named[1]) if named else None
        if named and named[2] and known != QUOTED + SAFE:
            known = None
        self._value(word, known, quoted)

    def _variable(self, word: Word, quoted: bool) -> None:
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
        self._value(word, self._known(name), quoted)

    def _known(self, name: str) -> str | None:
        """What the text has set before this place, or what the machine sets to a path that is harmless to write to."""
        known = self.state.variables.get(name)
        if known is None:
            return _MACHINE.get(name)
        return known if self.state.depth > 1 or self._first(rf"\b{re.escape(name)}(\+?=|\s+in\b)") < self.at else None

    def _first(self, pattern: str) -> int:
        """Where it stands first."""
        if pattern not in self.places:
            match = re.search(pattern, self.text)
            self.places[pattern] = match.start() if match else len(self.text)
        return self.places[pattern]

    def _inner(self, text: str) -> None:
        """A substitution runs in a shell of its own, before the commands around it are known."""
        folders = self.state.folders
        if self._first(_MOVES) < self.at:
            self.state.folders = (*folders, UNKNOWN)
        self.state.run(text)
        self.state.folders = folders

    def _value(self, word: Word, known: str | None, quoted: bool) -> None:
        if known is None:
            word.text += QUOTED if quoted else UNKNOWN
        else:
            word.wild = word.wild or (not quoted and any(sign in known for sign in "*?["))
            word.text += known.replace(UNKNOWN, QUOTED) if quoted else known.replace(" ", SPLIT)

    def _ansi(self, word: Word) -> None:
        end = self._end_of("'", self.at + 2, "a quote")
        word.text += ansi(self.text[self.at + 2 : end])
        word.quoted = True
        self.at = end + 1


def _split(text: str) -> list[str]:
    """A known variable outside quotes becomes words at its blanks, unless the word is an assignment."""
    return text.split(SPLIT) if SPLIT in text and not ASSIGNMENT.match(text) else [text.replace(SPLIT, " ")]
