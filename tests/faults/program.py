"""A small real program: threads, a lock, requests, metrics, sockets, files, a fork, a subprocess.
Its output is the same each time, and it exits with 3; a recording by dashcam changes nothing."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import dashcam

THREADS, REQUESTS = 4, 12
orders = dashcam.counter("orders")
lock = threading.Lock()
sums = [0] * THREADS


def serve(number: int) -> None:
    for turn in range(REQUESTS):
        with dashcam.request("GET /sum", thread=number):
            with dashcam.span("add"), lock:
                sums[number] += turn
                time.sleep(0.001)
            orders.inc()
            dashcam.event("added", turn=turn)
            if (number, turn) == (0, REQUESTS // 2):
                with lock:
                    time.sleep(0.2)


def talk() -> bytes:
    here, there = socket.socketpair()
    answer = []

    def echo() -> None:
        answer.append(there.recv(100))
        there.sendall(answer[0].upper())

    thread = threading.Thread(target=echo)
    thread.start()
    here.sendall(b"hello")
    said = here.recv(100)
    thread.join()
    here.close()
    there.close()
    return said


def ended_threads_are_gone() -> None:
    """A joined thread may still exist for the kernel, of which CPython warns at a fork."""
    for _ in range(10_000):
        try:
            names = [Path("/proc/self/task", tid, "comm").read_text() for tid in os.listdir("/proc/self/task")]
        except (FileNotFoundError, ProcessLookupError):  # one ended meanwhile
            continue
        except OSError:  # a world without descriptors
            return
        if sum(not name.startswith("dashcam") for name in names) <= 1:
            return
        time.sleep(0.001)


def fork() -> "tuple[int, bytes]":
    ended_threads_are_gone()
    end, other = os.pipe()
    child = os.fork()
    if child == 0:
        with dashcam.request("in the child"):
            os.write(other, b"from the child")
        os._exit(7)
    os.close(other)
    said = os.read(end, 100)
    os.close(end)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def main() -> None:
    threads = [threading.Thread(target=serve, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("sums", sums, "threads", threading.active_count())
    print("talk", talk())
    print("fork", fork())
    done = subprocess.run([sys.executable, "-S", "-E", "-c", "print(6 * 7)"], stdout=subprocess.PIPE,
                          check=False)
    print("subprocess", done.returncode, done.stdout)
    with tempfile.TemporaryFile() as file:
        file.write(b"line\n" * 1000)
        file.seek(0)
        print("file", len(file.read()), file.fileno())
    print("a line for stderr", file=sys.stderr)
    sys.exit(3)


if __name__ == "__main__":
    main()
