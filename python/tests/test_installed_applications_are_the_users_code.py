"""The installed packages that a command line names as the service itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dashcam import _application

PIP = """#!/venv/bin/python
# -*- coding: utf-8 -*-
import re
import sys
from {module} import {name}
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])
    sys.exit({name}())
"""
BY_HAND = "#!/venv/bin/python\nfrom stockroom import shelf\nshelf.run()\n"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A folder with `bin` and `site-packages`."""
    site, scripts = tmp_path / "site-packages", tmp_path / "bin"
    for package in ("stockroom", "stockroom/parts", "gunicorn", "google/stock"):
        (site / package).mkdir(parents=True)
        (site / package / "__init__.py").touch()
    (site / "single.py").touch()
    scripts.mkdir()
    (scripts / "stockroom").write_text(PIP.format(module="stockroom.cli", name="main"))
    (scripts / "gunicorn").write_text(PIP.format(module="gunicorn.app.wsgiapp", name="run"))
    (scripts / "by-hand").write_text(BY_HAND)
    (scripts / "serve.py").write_text(PIP.format(module="stockroom.cli", name="main"))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "variables", "found"),
    [
        (["{}/bin/stockroom", "--port", "80"], {}, ["stockroom"]),
        (["-X", "dev", "-u", "{}/bin/stockroom"], {}, ["stockroom"]),
        (["-m", "stockroom.parts"], {}, ["stockroom"]),
        (["-m", "single"], {}, ["single"]),
        (["-m", "google.stock.cli"], {}, ["google/stock"]),
        (["{}/bin/gunicorn", "-b", "127.0.0.1:8000", "stockroom.web:create()"], {}, ["stockroom"]),
        (["{}/bin/gunicorn", "-k", "gevent", "stockroom.wsgi"], {}, ["stockroom"]),
        (["-m", "celery", "-A", "stockroom.work", "worker"], {}, ["stockroom"]),
        (["-m", "celery", "--app=stockroom:tasks", "worker"], {}, ["stockroom"]),
        (["{}/bin/gunicorn", "wsgi:app"], {"DJANGO_SETTINGS_MODULE": "stockroom.settings"}, ["stockroom"]),
        (["-m", "flask", "run"], {"FLASK_APP": "single:make"}, ["single"]),
        # None of these is the service: a server alone, code that is not installed, options that
        # look like modules.
        (["{}/bin/gunicorn", "app:app"], {}, []),
        (["-k", "gunicorn:worker"], {}, []),
        (["{}/bin/by-hand"], {}, []),
        (["{}/bin/serve.py"], {}, []),
        (["-m", "nowhere..", "x"], {}, []),
        (["-m"], {}, []),
        (["-c", "import stockroom", "stockroom.web:app"], {}, ["stockroom"]),
        ([], {}, []),
    ],
)
def test_a_command_line_names_the_installed_application(
    environment: Path, words: list[str], variables: dict[str, str], found: list[str]
) -> None:
    site = environment / "site-packages"
    given = [word.format(environment) for word in words]
    folders = _application._installed(_application._modules(given, variables), [str(site)])
    assert folders == [str(site / name) for name in found]


def test_a_pipe_in_place_of_a_script_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    pipe = tmp_path / "bin" / "stockroom"
    os.mkfifo(pipe)
    assert _application._called_by(str(pipe)) == ""


def test_what_cannot_be_read_is_no_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_application, "_command_line", lambda: ["/nowhere/bin/stockroom"])
    assert _application.packages(["/nowhere/site-packages"]) == []
