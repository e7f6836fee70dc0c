"""The installed packages that are the service itself: a product that was installed like a library.

How it works: the process's command line names it. A console script imports the function that it
calls; `-m` names a module; a server or a task queue gets the application as `package.module:name`,
`-A package` or `package.wsgi`; Django and Flask take it from their environment variables. A package
counts if it lies in a folder of installed packages. Its frames are the user's code in a verdict.

What it promises: no import, no reading beyond the first 4 KiB of a console script, at most 8
packages, and an empty list if nothing is found. It never raises.

Missing on purpose: a program that names its application only in a configuration file of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import Iterable, Iterator, Mapping, Sequence

from dashcam._integrations import PATCHES

MAX_PACKAGES = 8
_SCRIPT_BYTES = 4096

# Packages that run the user's application: those that are hooked, and those that only start one.
_LAUNCHERS = {name.partition(".")[0] for name in PATCHES} | {
    "IPython", "coverage", "daphne", "dashcam", "ddtrace", "debugpy", "django", "eventlet", "granian", "honcho", "hupper",
    "newrelic", "nose", "opentelemetry", "pip", "pyramid", "pytest", "_pytest", "sanic", "scalene", "twisted", "uvicorn_worker",
    "watchdog", "watchfiles"}

# The form that pip and uv write: the imported name is called, and its result is the exit code.
_CONSOLE_SCRIPT = re.compile(rb"^from ([\w.]+) import (\w+)\s*$.*\bsys\.exit\(\2(?:\.\w+)*\(\)\)", re.M | re.S)
_WITH_ATTRIBUTE = re.compile(r"(?:^|=)([A-Za-z_][\w.]*):[A-Za-z_]")
_ENTRY_MODULE = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*\.(?:wsgi|asgi))")
_APPLICATION_FLAGS = {"-A", "--app"}
_INTERPRETER_FLAGS_WITH_VALUE = {"-W", "-X", "--check-hash-based-pycs"}
_VARIABLES = ("DJANGO_SETTINGS_MODULE", "FLASK_APP")


def packages(site: Sequence[str]) -> list[str]:
    """The folders (of a single file: its path without `.py`) of the installed packages that this
    process serves.
    """
    with contextlib.suppress(Exception):  # a service starts whatever its command line looks like
        return _installed(_modules(_command_line(), os.environ), site)
    return []


def _command_line() -> list[str]:
    """The words after the interpreter. For a process that `multiprocessing` spawned, those of its
    parent.
    """
    words = _words_of("self")
    return _words_of(str(os.getppid())) if words[-1:] == ["--multiprocessing-fork"] else words


def _words_of(process: str) -> list[str]:
    with open(f"/proc/{process}/cmdline", "rb") as words:
        return [os.fsdecode(word) for word in words.read().split(b"\0")[1:-1]]


def _modules(words: Sequence[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Names of modules that the command line gives as the application, the most certain first."""
    entry, arguments = _entry(words)
    if entry and entry.partition(".")[0] not in _LAUNCHERS:
        yield entry
        return
    previous = ""
    for word in arguments:
        if previous in _APPLICATION_FLAGS:
            yield word.partition(":")[0]
        elif found := _WITH_ATTRIBUTE.search(word) or _ENTRY_MODULE.fullmatch(word):
            yield found[1]
        elif word.startswith("--app="):
            yield word.partition("=")[2]
        previous = word
    for variable in _VARIABLES:
        yield environment.get(variable, "").partition(":")[0]


def _entry(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The module that the interpreter was started for, "" if none is known, and the arguments after
    it.
    """
    at = 0
    while at < len(words):
        word = words[at]
        if word == "-m":
            return (words[at + 1] if at + 1 < len(words) else ""), words[at + 2:]
        if not word.startswith("-"):
            return _called_by(word), words[at + 1:]
        if word == "-c":
            return "", words[at + 2:]
        at += 2 if word in _INTERPRETER_FLAGS_WITH_VALUE else 1
    return "", ()


def _called_by(script: str) -> str:
    """The module whose function a console script calls; "" if it is none."""
    folder, name = os.path.split(script)
    if name.endswith(".py") or os.path.basename(folder) not in ("bin", "Scripts"):
        return ""
    if not os.path.isfile(script):  # opening a named pipe would wait for its writer
        return ""
    with open(script, "rb") as file:
        found = _CONSOLE_SCRIPT.search(file.read(_SCRIPT_BYTES))
    return found[1].decode() if found else ""


def _installed(modules: Iterable[str], site: Sequence[str]) -> list[str]:
    folders: list[str] = []
    for module in modules:
        names = module.split(".")
        # For a namespace (`google.cloud.shop`) the first part that is a package of its own.
        for depth in range(1, len(names) + 1):
            if names[0] in _LAUNCHERS or not all(name.isidentifier() for name in names[:depth]):
                break
            found = [path for path in (os.path.join(folder, *names[:depth]) for folder in site) if _is_module(path)]
            folders += [path for path in found if path not in folders]
            if found:
                break
    return folders[:MAX_PACKAGES]


def _is_module(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "__init__.py")) or os.path.isfile(path + ".py")
