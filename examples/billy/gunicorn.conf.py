"""How Billy runs: two processes of eight threads."""

import os

bind = "127.0.0.1:" + os.environ.get("PORT", "8080")
worker_class = "gthread"
workers = 2
threads = 8
keepalive = 30
graceful_timeout = 2
loglevel = "warning"
