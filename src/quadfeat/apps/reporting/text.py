"""Strings that any terminal can print and any file can contain."""

from __future__ import annotations

import shlex
import unicodedata

# Control characters, lone surrogates, and separators that break lines in some programs.
UNSAFE = frozenset({"Cc", "Cs", "Zl", "Zp"})


def printable(text: str) -> str:
    r"""Return text on one line, with unprintable characters escaped.

    A file name that is not UTF-8 shows its bytes.

    Examples
    --------
    >>> import os
    >>> print(printable(os.fsdecode(b"caf\xe9.csv")), printable("two\nlines"))
    caf\xe9.csv two\nlines
    """
    return "".join(_escape(character) for character in text)


def _escape(character: str) -> str:
    if unicodedata.category(character) not in UNSAFE:
        return character
    if 0xDC80 <= ord(character) <= 0xDCFF:  # a byte that Python could not decode
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


def quoted(text: str) -> str:
    r"""Return a string as Python code, in double quotes.

    Examples
    --------
    >>> print(quoted('say "hi"'), quoted("a\udce9"))
    "say \"hi\"" "a\udce9"
    """
    safe = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(map(_python_escape, safe)) + '"'


def _python_escape(character: str) -> str:
    if unicodedata.category(character) not in UNSAFE:
        return character
    return character.encode("unicode_escape").decode("ascii")


def shell_quoted(argument: str) -> str:
    r"""Return an argument in shell quotes, even if it is not UTF-8.

    Examples
    --------
    >>> print(shell_quoted("plain"), shell_quoted("it is"), shell_quoted("caf\udce9.csv"))
    plain 'it is' $'caf\xe9.csv'
    """
    if not any(unicodedata.category(character) in UNSAFE for character in argument):
        return shlex.quote(argument)
    safe = argument.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{printable(safe)}'"


def encoded(text: str) -> bytes:
    """Return text as UTF-8, with lone surrogates escaped."""
    return text.encode("utf-8", "backslashreplace")
