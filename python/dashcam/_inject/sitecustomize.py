"""Starts dashcam in a program that does not know of it. `dashcam run` puts this folder first on
PYTHONPATH; Python imports a module of this name when it starts.

Then it gets out of the way: the folder leaves sys.path and the user's own sitecustomize, if there
is one further down, is run as if this were not here. Nothing here may raise.
"""

import os
import sys


def _start() -> None:
    if os.environ.get("DASHCAM_ENABLED", "").strip().lower() in ("0", "false", "no", "off"):
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
        dashcam.start()
    except Exception as error:
        found = "{} {}.{} ({})".format(
            sys.implementation.name, *sys.version_info[:2], sys.executable
        )
        print(
            f"dashcam: not recording: {found}: {error}; wanted CPython 3.9 to 3.13 with dashcam "
            "installed (pip install dashcam)",
            file=sys.stderr,
        )


def _step_aside() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401  the user's own
    except ImportError as error:
        if error.name != "sitecustomize":
            raise


try:
    _start()
finally:
    _step_aside()
