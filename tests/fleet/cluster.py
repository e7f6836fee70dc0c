"""A Spark standalone cluster of this machine: a master and two workers, as the wheel has them.

How it works: `spark-class` of the package pyspark starts each as a process; all listen on loopback
only. The master chooses its port and writes it into its log. `SPARK_CONF_DIR` names a folder with
the settings of applications, as a user's would be.

What it promises: small: heaps of 512 MiB, a core for each worker. Everything is ended with the
`with` block; whatever a worker has started, too, since it leads a process group. If the test is
killed, master and workers end with it; executors end when their worker is gone.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import bound
import pyspark

HOME = Path(pyspark.__file__).parent
CLASSES = "org.apache.spark.deploy"
HEAP = "512m"
PATIENCE_S = 240.0
# A heap of 512 MiB counts as 495 MiB, of which Spark wants 450. The default collector has a thread
# for each CPU, in each of five processes; and code that runs for minutes is not worth to be
# optimized.
JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
DEFAULTS = f"""\
spark.driver.memory {HEAP}
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.driver.extraJavaOptions {JAVA}
spark.executor.memory {HEAP}
spark.executor.cores 1
spark.executor.extraJavaOptions {JAVA}
spark.sql.shuffle.partitions 2
spark.default.parallelism 2
spark.sql.codegen.wholeStage false
"""


class Cluster:
    """A running cluster; `master` is its address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        conf = folder / "conf"
        conf.mkdir()
        (conf / "spark-defaults.conf").write_text(DEFAULTS, "utf-8")
        self.environment = {
            "SPARK_HOME": str(HOME), "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": HEAP,
            "SPARK_DAEMON_JAVA_OPTS": JAVA, "PYSPARK_PYTHON": sys.executable,
            # Java's names of files are those of the locale.
            "LC_ALL": "C.UTF-8",
        }
        self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.master = self._said("master", r"Starting Spark master at (spark://\S+)")
        for name in ("worker-1", "worker-2"):
            self._start(name, "worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", HEAP, "--webui-port", "0",
                        "--work-dir", str(folder / name), self.master)
        for name in ("worker-1", "worker-2"):
            self._said(name, r"Successfully registered with master (\S+)")

    def kill_an_executor(self) -> int:
        """Ends an executor by SIGKILL, whatever it does; returns its process id. Raises LookupError
        if there is none."""
        for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and self._is_ours(pid):
                    os.kill(pid, signal.SIGKILL)
                    return pid
        raise LookupError("no executor runs")

    def end(self) -> None:
        """Ends all processes."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, name: str, what: str, *words: str) -> None:
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes.append(bound.start(
                [str(HOME / "bin" / "spark-class"), f"{CLASSES}.{what}", *words], env=os.environ | self.environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True))

    def _said(self, name: str, pattern: str) -> str:
        """What a process wrote into its log. Raises TimeoutError with the log."""
        log, until = self.folder / f"{name}.log", time.monotonic() + PATIENCE_S
        while not (found := re.search(pattern, log.read_text("utf-8", "replace"))):
            if time.monotonic() > until or any(process.poll() is not None for process in self.processes):
                raise TimeoutError(f"{name} did not write {pattern!r}:\n{log.read_text('utf-8', 'replace')}")
            time.sleep(0.1)
        return found[1]

    def _is_ours(self, pid: int) -> bool:
        return os.getpgid(pid) in {process.pid for process in self.processes}


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Cluster]:
    """A cluster for as long as the block runs."""
    folder.mkdir()
    cluster = Cluster.__new__(Cluster)
    try:
        cluster.__init__(folder)  # type: ignore[misc]
        yield cluster
    finally:
        cluster.end()
