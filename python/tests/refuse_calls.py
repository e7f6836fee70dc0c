"""Runs a command with some system calls refused, as a container's seccomp profile refuses them:
`python refuse_calls.py perf_event_open,membarrier COMMAND...`. x86-64."""

from __future__ import annotations

import ctypes
import os
import struct
import sys

NUMBERS = {"perf_event_open": 298, "process_vm_readv": 310, "process_vm_writev": 311, "membarrier": 324,
           "close_range": 436, "pidfd_getfd": 438}
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2
LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 1  # EPERM


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def refuse(names: list[str]) -> None:
    """For this process and all it starts, for good."""
    code = [(LOAD_NUMBER, 0, 0, 0)]
    code += [(JUMP_IF_EQUAL, len(names) - i, 0, NUMBERS[name]) for i, name in enumerate(names)]
    code += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
    words = b"".join(struct.pack("HBBI", *step) for step in code)
    memory = ctypes.create_string_buffer(words)
    program = Program(len(code), ctypes.addressof(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or \
            libc.prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "no seccomp filter")


if __name__ == "__main__":
    refuse(sys.argv[1].split(","))
    os.execvp(sys.argv[2], sys.argv[2:])
