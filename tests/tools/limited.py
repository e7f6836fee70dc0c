"""Commands with a time limit: a command that is late is ended, with everything that it started, and
reported with its output so far.

`subprocess.run(timeout=...)` ends the command alone and then waits for its pipes, which a child of
the command may hold for ever. Here each command is a process group of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import Any, Optional, Sequence, Union

# At most this many characters of output are shown, the last ones.
SHOWN = 2000
# Time to read the output of a command that was ended.
LAST_WORDS_S = 10.0

Words = Sequence[Union[str, "os.PathLike[str]"]]


class Late(subprocess.TimeoutExpired):
    """As its base, with the command's output."""

    def __str__(self) -> str:
        parts = [super().__str__() + "; it was ended, with its group"]
        for name, said in (("stdout", self.output), ("stderr", self.stderr)):
            if said:
                text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
                parts.append(f"{name}: ...{text[-SHOWN:]}" if len(text) > SHOWN else f"{name}: {text}")
        return "\n".join(parts)


def run(
    words: Words,
    timeout: float,
    *,
    input: Any = None,
    capture_output: bool = False,
    check: bool = False,
    **options: Any,
) -> "subprocess.CompletedProcess[Any]":
    """As `subprocess.run`; `timeout` in seconds is required. Raises `Late` when it is over."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with subprocess.Popen(words, start_new_session=True, **options) as process:
        try:
            said = process.communicate(input, timeout=timeout)
        except subprocess.TimeoutExpired:
            end(process)
            raise Late(process.args, timeout, *last_words(process)) from None
        except BaseException:
            end(process)
            raise
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args, *said)
    return subprocess.CompletedProcess(process.args, process.returncode, *said)


def end(process: "subprocess.Popen[Any]") -> None:
    """SIGKILL to the group of a process that leads a group. Nothing happens once the process was
    waited for: another process may have its number by then."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def ended(process: "subprocess.Popen[Any]", seconds: float) -> bool:
    """Whether a process ends within that many seconds. It is not waited for: its number, and so
    that of its group, remains its own."""
    if process.returncode is not None:
        return True
    limit = time.monotonic() + seconds
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while os.waitid(os.P_PID, process.pid, options) is None:
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


def last_words(process: "subprocess.Popen[Any]") -> "tuple[Optional[Any], Optional[Any]]":
    """The output of a process that was ended; nothing if another process still holds its pipes."""
    try:
        return process.communicate(timeout=LAST_WORDS_S)
    except (subprocess.TimeoutExpired, ValueError):
        return None, None
