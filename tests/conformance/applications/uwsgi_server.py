"""uWSGI as the module pyuwsgi, whose `run` does not return: `uwsgi_server.py OPTION...`."""

from __future__ import annotations

import sys

import pyuwsgi

pyuwsgi.run(sys.argv[1:])
