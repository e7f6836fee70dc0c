"""Starts dashcam in a program without a change to the program. `dashcam run` puts this folder first
on PYTHONPATH; Python imports a module of this name when it starts.

Programs that a recorded program starts (a helper, a backend in a subprocess) are not part of the
service and are not recorded, unless they are the same program again (a reloader, an upgrade) or a
multiprocessing child; DASHCAM_CHILDREN=on records them all. A launcher that becomes the program by
exec (opentelemetry-instrument, ddtrace-run, newrelic-admin) keeps its process id, so the program is
the service. Such a launcher puts a sitecustomize of its own in front of this one; before the exec
this folder is put first again, and the launcher's module runs as the user's own does.

Then it removes itself: the folder is taken from sys.path, and the user's own sitecustomize, if
there is one further down, runs as if this one did not exist. Nothing here may raise, and any Python
must be able to read it, also Python 2: no annotations, no f-strings.
"""

import os
import sys
import zlib


def _is_off(name):
    return os.environ.get(name, "").strip().lower() in ("0", "false", "no", "off")


def _is_helper():
    """Whether a program above this one is recorded and this is another program."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            # Without the interpreter's own path, which a reloader spells differently.
            words = file.read().split(b"\0")[1:]
    except OSError:
        return False
    this = "%08x" % zlib.crc32(b"\0".join(words))
    pid = str(os.getpid())
    if os.environ.get("DASHCAM_ROOT_PID") == pid and os.environ.get("DASHCAM_ROOT") != this:
        # The launcher has become this program.
        os.environ["DASHCAM_ROOT"] = this
        os.environ.pop("DASHCAM_ROOT_NAME", None)
    root = os.environ.setdefault("DASHCAM_ROOT", this)
    os.environ.setdefault("DASHCAM_ROOT_PID", pid)
    wanted = os.environ.get("DASHCAM_CHILDREN", "").strip().lower()
    if root == this:
        if wanted not in ("", "1", "true", "yes", "on", "0", "false", "no", "off"):
            sys.stderr.write(
                'dashcam: DASHCAM_CHILDREN: found "{}", wanted on or off (1/true/yes/on, 0/false/no/off); '
                "using off\n".format(wanted)
            )
        return False
    if any(b"multiprocessing.resource_tracker" in word for word in words):
        return True
    if any(b"multiprocessing" in word for word in words):
        # Its own command line says nothing about the service.
        if "DASHCAM_ROOT_NAME" in os.environ:
            os.environ.setdefault("DASHCAM_SERVICE", os.environ["DASHCAM_ROOT_NAME"])
        return False
    return wanted not in ("1", "true", "yes", "on")


def _start():
    if _is_off("DASHCAM_ENABLED") or _is_helper():
        return
    package_dir = os.environ.get("DASHCAM_PACKAGE_DIR")
    try:
        try:
            import dashcam
        except ImportError:
            if not package_dir:
                raise
            sys.path.append(package_dir)
            try:
                import dashcam
            finally:
                sys.path.remove(package_dir)
        if getattr(dashcam._native, "elsewhere", False):
            return
        dashcam.start()
        dashcam._native.before_exec(_stay_first)
        service = dashcam.status().get("service")
        if service:
            os.environ.setdefault("DASHCAM_ROOT_NAME", service)
    except Exception as error:
        sys.stderr.write(
            "dashcam: not recording: Python {}.{} ({}): {}; wanted CPython 3.9 to 3.15 with dashcam "
            "installed; the program runs on\n".format(
                sys.version_info[0], sys.version_info[1], sys.executable, error
            )
        )


def _stay_first(environment):
    """Puts this folder in front of PYTHONPATH again, if it is in there; returns the environment of
    the program that this one becomes, None for its own: that is recorded, too."""
    here = os.path.dirname(os.path.abspath(__file__))
    given = os.environ if environment is None else environment
    paths = given.get("PYTHONPATH", "").split(os.pathsep)
    if here not in paths or paths[0] == here:
        return environment
    joined = os.pathsep.join([here] + [path for path in paths if path != here])
    if given is os.environ:
        given["PYTHONPATH"] = joined
        return environment
    return dict(given, PYTHONPATH=joined)


def _step_aside():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    this = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401  the user's own
    except ImportError as error:
        # Another name: what is missing is imported by the user's own.
        if error.name != "sitecustomize":
            raise
    finally:
        # The import that brought us here expects to find a module of that name.
        if this is not None:
            sys.modules.setdefault("sitecustomize", this)


try:
    _start()
finally:
    _step_aside()
