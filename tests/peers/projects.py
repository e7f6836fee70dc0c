"""The projects whose own tests dashcam must pass: a row each. constraints.txt pins their
requirements.

A row names the source distribution (version and SHA-256), the parts of it that are kept, how its
tests run, and which tests are left out, each with the reason. Tests that need a network or a server
of their own are left out. To add a project: a row here, its requirements in constraints.txt, and a
run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Mapping, Optional


@dataclass(frozen=True)
class Project:
    """One suite."""

    name: str
    # None: the interpreter's own tests, which need no source.
    version: Optional[str]
    sha256: str
    # The unpacked parts of the source: the tests and their configuration, never the package.
    keep: "tuple[str, ...]"
    # Files for pytest; for unittest modules, each in a process of its own.
    run: "tuple[str, ...]"
    kind: Literal["pytest", "unittest"] = "pytest"
    options: "tuple[str, ...]" = ()
    extras: str = ""
    # The project's name in the registry, where a project has several rows.
    package: str = ""
    requires: "tuple[str, ...]" = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    # A test (or module) and the reason why it is left out, on both sides.
    deselected: Mapping[str, str] = field(default_factory=dict)
    # Where the tests are if the source distribution has none: a repository, whose tag is the version
    # and has the commit `sha256`.
    repository: str = ""
    # Variables with the address of a PostgreSQL server (postgres.py), if the tests need one.
    postgres: Mapping[str, str] = field(default_factory=dict)
    # Whether programs that the tests start are recorded as well: workers of pytest-xdist, servers.
    records_children: bool = False
    # A process of the suite that takes longer is ended.
    seconds: int = 1800

    def registry_name(self) -> str:
        """Its name in the registry."""
        return self.package or self.name


def _words(text: str, before: str = "", behind: str = "") -> "tuple[str, ...]":
    return tuple(f"{before}{word}{behind}" for word in text.split())


# CPython's: the parts that a recorder in the process could change.
CPYTHON = _words(
    """
    test_threading test_thread test_threadsignals test_threading_local test_fork1 test_subprocess
    test_signal test_faulthandler test_sys_settrace test_sys_setprofile test_frame test_exceptions
    test_traceback test_generators test_coroutines test_asyncgen test_yield_from test_context
    test_contextlib test_contextlib_async test_gc test_weakref test_weakset test_finalization test_queue
    test_socketserver test_httpservers test_wsgiref test_selectors test_socket test_logging test_import
    test_capi test_inspect test_atexit test_tracemalloc test_pty test_os test_posix test_mmap
    test_resource test_bdb test_code test_dis test_runpy test_unittest test_sys test_warnings
    test_pickle test_copy test_sqlite3 test_concurrent_futures test_asyncio test_multiprocessing_fork
    test_multiprocessing_spawn test_multiprocessing_forkserver test_multiprocessing_main_handling
    """
)

# All of gevent's test programs.
GEVENT = _words(
    """
    _GreenletExit __config __ident __monitor __monkey_patching _all__ _api _api_timeout
    _ares_host_result _ares_timeout _backdoor _close_backend_fd _compat _contextvars _core _core_async
    _core_callback _core_fork _core_loop_run _core_stat _core_timer _core_watcher _destroy
    _destroy_default_loop _doctests _environ _event _events _example_echoserver _example_portforwarder
    _example_udp_client _example_udp_server _example_webproxy _example_wsgiserver
    _example_wsgiserver_ssl _examples _exc_info _execmodules _fileobject _getaddrinfo_import _greenio
    _greenlet _greenletset _greenness _hub _hub_join _hub_join_timeout _import_blocking_in_greenlet
    _import_wait _issue112 _issue1686 _issue1864 _issue2013 _issue230 _issue330 _issue467 _issue6
    _issue600 _issue607 _issue639 _issue_728 _issues461_471 _iwait _joinall _local _lock _loop_callback
    _makefile_ref _memleak _monkey _monkey_builtins_future _monkey_fork_atomic
    _monkey_futures_thread_fork _monkey_hub_in_thread _monkey_logging _monkey_module_run
    _monkey_multiple_imports _monkey_queue _monkey_select _monkey_selectors _monkey_sigchld
    _monkey_sigchld_2 _monkey_sigchld_3 _monkey_sigchld_wakeup_fd _monkey_ssl_warning
    _monkey_ssl_warning2 _monkey_ssl_warning3 _nondefaultloop _order _os _pool _pywsgi _queue
    _real_greenlet _refcount _refcount_core _resolver_dnspython _select _selectors _semaphore _server
    _server_pywsgi _signal _sleep0 _socket _socket_close _socket_dns _socket_dns6 _socket_errors
    _socket_ex _socket_send_memoryview _socket_ssl _socket_timeout _socketpair _ssl _subprocess
    _subprocess_interrupted _subprocess_poll _systemerror _thread _threading _threading_2
    _threading_before_monkey _threading_fork_from_dummy _threading_holding_lock_while_monkey
    _threading_monkey_in_thread _threading_native_before_monkey _threading_no_monkey
    _threading_patched_local _threading_shutdown_atexit _threading_vs_settrace _threadpool
    _threadpool_executor_patched _timeout _util
    """,
    before="gevent.tests.test_",
)

PROJECTS = [
    Project(
        "flask",
        "3.1.3",
        "0ef0e52b8a9cd932855379197dd8f94047b359ca0a78695144304cb45f87c9eb",
        keep=("tests", "examples", "pyproject.toml"),
        run=("tests",),
        extras="[async,dotenv]",
        requires=("pytest==8.4.2", "greenlet"),
    ),
    # Threads of execnet beside the tests, and workers that are recorded.
    Project(
        "flask-xdist",
        "3.1.3",
        "0ef0e52b8a9cd932855379197dd8f94047b359ca0a78695144304cb45f87c9eb",
        keep=("tests", "examples", "pyproject.toml"),
        run=("tests",),
        options=("-n", "4"),
        extras="[async,dotenv]",
        package="flask",
        requires=("pytest==8.4.2", "pytest-xdist", "greenlet"),
        records_children=True,
    ),
    Project(
        "werkzeug",
        "3.1.9",
        "55ca7c70a75689be937aa27f8ff4b018f06ff4838fc73045560bf0f5a1291060",
        keep=("tests", "pyproject.toml"),
        run=("tests",),
        extras="[watchdog]",
        requires=("pytest==9.2.0", "pytest-timeout", "cffi", "cryptography", "ephemeral-port-reserve"),
        deselected={
            "tests/test_serving.py::test_reloader_sys_path[watchdog]": "watches the interpreter's own "
            "library: whatever another process writes there restarts its server, again and again"
        },
        records_children=True,
    ),
    Project(
        "starlette",
        "1.10.0",
        "b8399098d4c1e3522734f7235dc79b1fc967f96cf139c81e0fa30479e0685f9b",
        keep=("tests", "pyproject.toml"),
        run=("tests",),
        extras="[full]",
        requires=("pytest==9.2.0", "trio", "blockbuster", "httpx2[zstd]", "opentelemetry-sdk", "pytest-codspeed"),
    ),
    Project(
        "fastapi",
        "0.165.0",
        "dd94d4128319c1e1d50535ab023ab698f850a4d2822f0e181747b46f4ff3c0ab",
        keep=("tests", "docs_src", "pyproject.toml"),
        run=("tests",),
        extras="[standard]",
        options=(
            "--ignore=tests/test_tutorial",  # longer than all others, through the same code
            "--ignore=tests/test_telemetry",  # starts programs with a limit of 20 s
            "--ignore=tests/test_prepare_release.py",  # of its scripts
            "--ignore=tests/test_translate.py",
        ),
        requires=(
            "pytest==9.1.1", "pytest-timeout", "pytest-codspeed", "pytest-xdist", "a2wsgi", "anyio[trio]",
            "dirty-equals", "flask", "httpx", "inline-snapshot", "pwdlib[argon2]", "pyjwt", "pyyaml", "sqlmodel",
            "opentelemetry-sdk", "opentelemetry-instrumentation-fastapi", "opentelemetry-exporter-otlp-proto-http",
            "sentry-sdk",
        ),
    ),
    Project(
        "anyio",
        "4.16.0",
        "59bb03251907983d1603d27c3087ddb1e93299ea2163adcdba37899a4fb12ffb",
        keep=("tests", "pyproject.toml"),
        run=("tests",),
        extras="[trio]",
        # Without `::1` as localhost the tests of IPv6 fail, and CPython 3.11 may fail while showing
        # the failures: ast.parse raises SystemError if a destructor that the collector runs inside
        # of it parses, too.
        options=("-m", "not network", "-k", "not ipv6 and not dualstack", "-o", "timeout=300"),
        requires=(
            "blockbuster", "coverage", "exceptiongroup", "hypothesis", "psutil", "pytest==9.2.0", "pytest-mock",
            "pytest-timeout", "trustme", "truststore", "uvloop",
        ),
    ),
    Project(
        "uvicorn",
        "0.54.0",
        "a2e33cbfaa0306f8e6b0c13e0cb89d7d7a2da3e62b90c66e18c33d9807b28620",
        keep=("tests", "pyproject.toml"),
        run=("tests",),
        extras="[standard]",
        options=("-n", "0"),
        requires=(
            "a2wsgi", "coverage", "cryptography", "httpx2", "psutil", "pytest==9.2.0", "pytest-codspeed",
            "pytest-mock", "pytest-xdist", "trustme", "wsproto", "zttp",
        ),
        records_children=True,
    ),
    Project(
        "waitress",
        "3.0.2",
        "682aaaf2af0c44ada4abfb70ded36393f0e307f4ab9456a215ce0020baefc31f",
        keep=("tests", "setup.cfg"),
        run=("tests",),
        options=("--no-cov",),
        requires=("pytest==9.2.0", "pytest-cov"),
        records_children=True,
    ),
    Project(
        "gevent",
        "26.9.0",
        "4dd4703d71737a456c1c9df5cd43a82934e5b10c87549caa02495f487d1ef0b1",
        # Its tests are installed with it; the source is fetched for their list and their licence.
        keep=("LICENSE",),
        run=GEVENT,
        kind="unittest",
        options=("-m",),
        requires=("psutil", "zope.event", "zope.interface"),
        environment={"GEVENTTEST_USE_RESOURCES": "-network"},
        records_children=True,
        seconds=120,
    ),
    Project(
        "uvloop",
        "0.23.0",
        "28d160f51ab4da3b187063652e643dea6831072add4adc1e6d62afbe73b6be27",
        keep=("tests", "pyproject.toml"),
        run=("tests",),
        options=(
            "--ignore=tests/test_dns.py",  # asks name servers
            "--ignore=tests/test_sourcecode.py",  # checks the form of the source
        ),
        requires=("pytest==9.2.0", "aiohttp", "psutil", "pyopenssl"),
        records_children=True,
    ),
    Project(
        "tornado",
        "6.6.1",
        "28e6311402af59c8b02e3fa0f5e7d8eb465b25081381803b127d97e6a4395d5a",
        keep=("LICENSE",),
        run=_words(
            "asyncio auth autoreload circlerefs concurrent curl_httpclient escape gen http1connection "
            "httpclient httpserver httputil import ioloop iostream locale locks log netutil options process "
            "queues routing simple_httpclient tcpclient tcpserver template testing util web websocket wsgi",
            before="tornado.test.",
            behind="_test",
        ),
        kind="unittest",
        options=("-m", "tornado.test.runtests"),
        # Its limit of 5 s for each test depends on the speed of a busy machine.
        environment={"ASYNC_TEST_TIMEOUT": "60"},
        records_children=True,
        seconds=300,
    ),
    Project(
        "trio",
        "0.35.0",
        "7efb295c78a0ecd1235c5759e620b5da564ca80d2efcb0055423588547248b96",
        keep=("LICENSE", "pyproject.toml"),
        run=("--pyargs", "trio._core._tests", "trio._tests"),
        options=("-p", "trio._tests.pytest_plugin", "--skip-optional-imports"),
        requires=("pytest==9.2.0", "trustme", "pyopenssl", "astor", "jedi", "async-generator"),
    ),
    Project(
        "gunicorn",
        "27.0.1",
        "b1514965361c8b7e8107a80aa2a92636878df1ccfac6dd204a676426e04d9e3e",
        keep=("tests", "examples", "pyproject.toml"),
        run=("tests",),
        options=("--no-cov", "--ignore=tests/docker"),
        requires=(
            "pytest==9.2.0", "pytest-cov", "pytest-asyncio", "coverage", "gevent", "h2", "uvloop",
            "httpx[http2]", "inotify", "tornado",
        ),
        records_children=True,
    ),
    Project(
        "cheroot",
        "11.1.2",
        "bfb70c49663f63b0440f2b54dbc6b0d1650e56dfe4e2641f59b2c6f727b44aca",
        keep=("pytest.ini", "LICENSE.md"),
        run=("--pyargs", "cheroot.test"),
        # The mark is that of a plugin which runs tests again until they pass; here none is.
        options=(
            *("-o", "addopts=", "-p", "cheroot.test._pytest_plugin"),
            *("-W", "ignore::pytest.PytestUnknownMarkWarning"),
            # Of pyOpenSSL, newer than the suite: as an error it leaves a server that nobody stops.
            *("-W", "ignore::DeprecationWarning"),
        ),
        requires=(
            "pytest==8.4.2", "jaraco.context", "jaraco.text", "portend", "pyopenssl", "pypytools", "requests",
            "requests-toolbelt", "requests-unixsocket2", "trustme", "pytest-mock",
        ),
        records_children=True,
    ),
    Project(
        "aiohttp",
        "3.14.5",
        "5558a7f5a05af9ecf744af91e5baefc436f93c9333e656c27ec253f9a6bbe178",
        keep=("tests", "pytest.ini"),
        # Its server, over connections; the rest tests the client, parsers, cookies and the like.
        run=_words(
            "run_app web_functional web_protocol web_request_handler web_runner web_sendfile_functional web_server "
            "web_websocket_functional",
            before="tests/test_",
            behind=".py",
        ),
        options=(
            *("-o", "addopts=", "-o", "asyncio_default_fixture_loop_scope=function"),
            *("-m", "not dev_mode and not autobahn and not internal"),
        ),
        extras="[speedups]",
        requires=(
            "pytest==9.2.0", "pytest-aiohttp", "pytest-codspeed", "pytest-cov", "pytest-mock", "pytest-timeout",
            "pytest-xdist", "blockbuster", "freezegun", "isal", "proxy.py", "re-assert", "trustme",
            "python-on-whales", "uvloop", "zlib-ng", "setuptools-git",
        ),
    ),
    Project(
        "django",
        "5.2.19",
        "ad03d8abc51dbff95ebf34b27123cf0c26a3b62db7ba0cd520783686362533d1",
        keep=("tests",),
        run=_words(
            "asgi async builtin_server cache.tests_async context_processors csrf_tests decorators "
            "dispatch file_uploads files handlers httpwrappers logging_tests middleware "
            "middleware_exceptions requests_tests responses servers sessions_tests signals staticfiles_tests "
            "test_client test_client_regress urlpatterns urlpatterns_reverse view_tests wsgi"
        ),
        kind="unittest",
        options=("tests/runtests.py", "--parallel=1"),
        requires=("docutils", "jinja2", "pyyaml", "tblib"),
    ),
    # Its work on a database, SQLite: cursors, transactions, schemas, rows.
    Project(
        "django-db",
        "5.2.19",
        "ad03d8abc51dbff95ebf34b27123cf0c26a3b62db7ba0cd520783686362533d1",
        keep=("tests",),
        run=_words(
            "aggregation annotations async backends base basic bulk_create cache constraints custom_managers "
            "custom_pk dates db_functions db_typecasts db_utils dbshell defer delete fixtures "
            "force_insert_update generic_relations get_or_create inspectdb introspection lookup "
            "many_to_many migrate_signals model_forms multiple_database ordering pagination prefetch_related "
            "queries raw_query reserved_names schema select_for_update select_related serializers "
            "test_runner test_utils transaction_hooks transactions update update_only_fields"
        ),
        kind="unittest",
        options=("tests/runtests.py", "--parallel=1"),
        package="django",
        requires=("docutils", "jinja2", "pyyaml", "tblib"),
    ),
    Project(
        "httpx",
        "0.28.1",
        "75e98c5f16b0f35b567856f597f06ff2270a374470a5c2392242528e3e3e42fc",
        keep=("tests", "pyproject.toml"),
        run=("tests",),
        extras="[brotli,http2,socks,zstd]",
        # of its command, which wants an older rich
        options=("-m", "not network", "--ignore=tests/test_main.py"),
        requires=("pytest==8.4.2", "chardet", "trio", "trustme", "uvicorn", "cryptography"),
    ),
    Project(
        "requests",
        "2.34.2",
        "f288924cae4e29463698d6d60bc6a4da69c89185ad1e0bcc4104f584e960b9ed",
        keep=("tests", "pyproject.toml", "requirements-dev.txt"),
        run=("tests",),
        extras="[socks]",
        # httpbin wants an older Flask.
        requires=(
            "pytest==9.2.0", "pytest-httpbin", "httpbin", "pytest-mock", "trustme", "flask==2.3.3", "werkzeug==2.3.8",
        ),
    ),
    Project(
        "urllib3",
        "2.8.0",
        "63bf2ead4c879426ebf22ef2a781eeb4aa3b4ae798a0435506f8687fd5bb9b63",
        keep=("test", "dummyserver", "pyproject.toml"),
        run=("test",),
        extras="[brotli,h2,socks]",
        # Those connect to an address that must not answer, within 1 ms: what a network does with it
        # differs from one moment to the next.
        options=("-m", "not requires_network"),
        requires=(
            "pytest==9.2.0", "pytest-timeout", "pytest-socket", "hypercorn", "quart", "quart-trio", "trio", "trustme",
            "cryptography", "idna", "httpx", "pyopenssl",
        ),
        deselected={"test/contrib/emscripten": "wants a browser"},
    ),
    Project(
        "billiard",
        "4.3.2",
        "9eb83c99b1cf7acb1fed86c1dfd477157000a1a2c0108005c1e5837b55d2acba",
        keep=("t", "setup.cfg"),
        run=("t/unit",),
        requires=("pytest==9.2.0", "psutil"),
        records_children=True,
    ),
    Project(
        "kombu",
        "5.7.0",
        "31e62fdfd2381caa3422f8e02b84a491d9a2180ddda74507b57f4cb1e1c2c2c9",
        keep=("t", "setup.cfg"),
        run=("t/unit",),
        # Transports of clouds, whose clients are not installed.
        options=(
            *("--ignore=t/unit/asynchronous/aws", "--ignore=t/unit/transport/SQS"),
            *("--ignore=t/unit/transport/test_azurestoragequeues.py", "--ignore=t/unit/transport/test_gcpubsub.py"),
        ),
        requires=("pytest==9.2.0", "hypothesis", "pytest-freezer", "pyro4", "redis", "pyyaml", "msgpack"),
    ),
    Project(
        "celery",
        "5.7.0",
        "6a5dfcf6662287204f009a02002b9e66c83d4105e47ebabdc7079108772fc6f0",
        keep=("t", "pyproject.toml"),
        # Its result stores, utilities and command line are left out.
        run=("t/unit/app", "t/unit/tasks", "t/unit/worker", "t/unit/concurrency", "t/unit/contrib"),
        options=("-p", "celery.contrib.pytest"),
        requires=(
            "kombu==5.7.0", "pytest==9.2.0", "pytest-click", "pytest-order", "pytest-subtests", "pytest-timeout",
            "freezegun", "cryptography", "pydantic", "pyyaml", "msgpack",
        ),
    ),
    # Only tests without a server: the others find none, on both sides.
    Project(
        "redis",
        "8.1.0",
        "6e1a19beef9225c83efd689c7e6b7da2d5215b1f42cd13b7fc3714d0a09c7b25",
        keep=("tests", "pyproject.toml"),
        run=(
            *_words(
                "backoff credentials crc event helpers max_connections_error retry utils",
                before="tests/test_",
                behind=".py",
            ),
            "tests/test_http", "tests/test_multidb", "tests/test_observability", "tests/test_parsers",
            *_words("retry usage_counter utils", before="tests/test_asyncio/test_", behind=".py"),
            "tests/test_asyncio/test_multidb", "tests/test_asyncio/test_observability",
        ),
        options=("-o", "timeout=0"),
        requires=(
            "pytest==9.2.0", "pytest-asyncio", "pytest-timeout", "numpy", "pybreaker", "aiohttp", "xxhash",
            "redis-entraid", "opentelemetry-sdk", "cryptography",
        ),
        seconds=900,
    ),
    Project(
        "psycopg",
        "3.3.4",
        "83f110367cdd249cc0a352e2246ecea9e878e5a0",
        keep=("tests", "pyproject.toml"),
        run=("tests",),
        extras="[binary,pool]",
        repository="https://github.com/psycopg/psycopg",
        postgres={"PSYCOPG_TEST_DSN": "host={host} port={port} user={user} dbname={database}"},
        # Tests with limits of time are marked; slow ones wait. Its configuration wants the cache.
        options=(
            *("-m", "not timing and not mypy and not slow"),
            *("-p", "cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"),
            *("-o", "cache_dir=$TMPDIR/cache"),
        ),
        requires=("pytest==9.2.0", "anyio>=4.0", "psycopg-pool==3.3.1"),
    ),
    # Cursors and connections in C.
    Project(
        "psycopg2",
        "2.9.12",
        "3a6d9d6ddc6b53eaa80b712f5fa6b23abbdc38db",
        keep=("tests",),
        run=("tests",),
        package="psycopg2-binary",
        repository="https://github.com/psycopg/psycopg2",
        postgres={"PSYCOPG2_TESTDB": "{database}", "PGHOST": "{host}", "PGPORT": "{port}", "PGUSER": "{user}"},
        requires=("pytest==9.2.0",),
    ),
    # The same through a callback that waits, as event loops do.
    Project(
        "psycopg2-green",
        "2.9.12",
        "3a6d9d6ddc6b53eaa80b712f5fa6b23abbdc38db",
        keep=("tests",),
        run=("tests",),
        package="psycopg2-binary",
        repository="https://github.com/psycopg/psycopg2",
        postgres={"PSYCOPG2_TESTDB": "{database}", "PGHOST": "{host}", "PGPORT": "{port}", "PGUSER": "{user}"},
        environment={"PSYCOPG2_TEST_GREEN": "1"},
        requires=("pytest==9.2.0",),
    ),
    # Its pools, engines, transactions and asyncio, with SQLite; the rest tests how SQL is built.
    Project(
        "sqlalchemy",
        "2.1.9",
        "d700a8b2edfb26282a470333d6bc4a454c4acda4d201a3bea7b72fa76c217d28",
        # The plugin is read from where the source has it.
        keep=("test", "lib/sqlalchemy/testing/plugin", "setup.cfg", "pyproject.toml"),
        run=("test/base/test_concurrency.py", "test/base/test_events.py", "test/engine", "test/ext/asyncio"),
        options=("--db", "sqlite", "--db", "aiosqlite", "--tb=short"),
        extras="[asyncio,aiosqlite]",
        environment={"PYTHONNOUSERSITE": "1"},
        requires=("pytest==9.2.0",),
    ),
    # Its tests are installed with it, and run with SQLite.
    Project(
        "pony",
        "0.7.20",
        "27a48dffd1d1005956ffa96873fb2de5eada639ca266c43db480cadabc860ccd",
        keep=("LICENSE",),
        run=("--pyargs", "pony.orm.tests"),
        requires=("pytest==9.2.0",),
    ),
    Project(
        "opentelemetry-sdk",
        "1.45.2",
        "7eec4de13dd21ff3a1670dcb0e02079e692736f94d733dfdce5af461d884248d",
        keep=("tests", "pyproject.toml"),
        run=("tests",),
        # These want opentelemetry-test-utils of the same version, which the registry has not.
        options=_words(
            "metrics/exponential_histogram/test_exponent_mapping "
            "metrics/exponential_histogram/test_exponential_bucket_histogram_aggregation "
            "metrics/integration_test/test_console_exporter "
            "metrics/integration_test/test_exporter_concurrency "
            "metrics/test_backward_compat "
            "metrics/test_exemplarreservoir "
            "metrics/test_import "
            "metrics/test_metric_reader_storage "
            "metrics/test_metrics "
            "metrics/test_periodic_exporting_metric_reader "
            "test_configurator "
            "trace/test_trace",
            before="--ignore=tests/",
            behind=".py",
        ),
        requires=("pytest==9.2.0", "psutil"),
    ),
    # Integrations with servers and frameworks that dashcam hooks, too.
    Project(
        "sentry-sdk",
        "2.75.0",
        "c38ac2d4b2435c11da821e173bb9d9088c98f41ae92f559ce0e424170a8e1a29",
        keep=("tests", "pyproject.toml"),
        run=_words(
            "asgi celery fastapi flask requests starlette stdlib sys_exit threading tornado wsgi",
            before="tests/integrations/",
        ),
        options=("-o", "addopts=", "--tb=short"),
        requires=(
            "pytest==8.4.2", "pytest-asyncio", "pytest-localserver", "pytest-httpx", "async-asgi-testclient", "brotli",
            "celery", "executing", "fastapi", "flask", "flask-login", "httpcore[http2]", "httpx", "jsonschema",
            "pysocks", "python-multipart", "requests", "responses", "socksio", "starlette", "tornado", "werkzeug",
        ),
    ),
    Project(
        "cpython",
        None,
        "",
        keep=(),
        run=CPYTHON,
        kind="unittest",
        options=("-m", "test", "--timeout", "600", "--fail-env-changed"),
        seconds=900,
    ),
]  # fmt: skip
