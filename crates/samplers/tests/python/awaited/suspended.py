"""What the reader says of a suspended task, what CPython says, and tasks to be read."""

import asyncio
import ctypes
import os

import probe

lib = probe.held  # with the GIL: the loop stands still while it is read
lib.probe_task_holding.restype = ctypes.c_size_t
lib.probe_task_with_item.restype = ctypes.c_size_t
lib.probe_time_suspended.restype = ctypes.c_uint64


def word(value):
    return ctypes.c_size_t(id(value) if not isinstance(value, int) else value)


class Chain:
    def __init__(self, text):
        head, *frames = text.splitlines()
        kind, limit, fd, lock, task = head.split(" ")
        self.kind, self.limit_ms, self.fd = kind, int(limit), int(fd)
        self.lock, self.task = int(lock), int(task)
        rows = [line.split("\t") for line in frames]
        self.frames = [(name, os.path.basename(file), int(line)) for name, file, line in rows]
        self.names = [name.rsplit(".", 1)[-1] for name, _, _ in self.frames]

    def __repr__(self):
        return "%s limit=%s fd=%s %s" % (self.kind, self.limit_ms, self.fd, self.frames)


def read(task):
    text = probe.text(lib.probe_suspended, word(task))
    if text.startswith("torn read"):
        return text
    return [Chain(part) for part in text.split("\n\n") if part]


def one(task):
    found = read(task)
    assert isinstance(found, list) and len(found) == 1, found
    return found[0]


def by_cpython(task):
    """The chain as the coroutines' own attributes tell it, innermost first."""
    frames, next_ = [], task.get_coro()
    while next_ is not None:
        for prefix in ("cr", "gi", "ag"):
            frame = getattr(next_, prefix + "_frame", None)
            if frame is not None:
                code = frame.f_code
                name = getattr(code, "co_qualname", code.co_name)
                frames.append((name, os.path.basename(code.co_filename), frame.f_lineno))
                break
        else:
            break
        next_ = getattr(next_, prefix + ("_yieldfrom" if prefix == "gi" else "_await"), None)
    return frames[::-1]


async def settle(turns=4):
    for _ in range(turns):
        await asyncio.sleep(0)


async def parked(coroutine):
    task = asyncio.ensure_future(coroutine)
    await settle()
    await asyncio.sleep(0.01)
    return task


async def drop(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def deep(depth, leaf):
    if depth:
        return await deep(depth - 1, leaf)
    here = list(range(40))  # a frame larger than what is read at once
    await leaf
    return here
