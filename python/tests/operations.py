"""Programs that make every call of the API, and functions with each kind of hook, to be run bare and
recorded while something goes wrong. The functions allocate nothing themselves, or little: CPython
3.11 itself crashes of a failed allocation in many places."""

from __future__ import annotations

# `compare(answers)`: `answers(operation)` gives all answers of an operation, however it was made to
# fail; those of recorded operations must be among those of bare ones.
NAMES = (
    "request",
    "request_with_attributes",
    "nested",
    "decorated",
    "counts",
    "fails",
    "served",
    "framed",
    "hooked",
    "hooked_by_keyword",
    "started",
    "logged",
    "submitted",
    "dispatched",
    "awaited",
)
OPERATIONS = """
    import dashcam, gc, io, itertools, re, sys
    from contextvars import ContextVar
    from types import SimpleNamespace
    from dashcam import _native, log
    from dashcam._integrations import asgi, wsgi

    class Odd:
        def __str__(self): return "odd"
    odd, orders = Odd(), dashcam.counter("orders")
    def request():
        with dashcam.request("GET /a"): return "done"
    def request_with_attributes():
        with dashcam.request("GET /a", user=42, odd=odd) as open: open.set(more=1.5, odd=odd)
        return "done"
    def nested():
        with dashcam.request("GET /a"), dashcam.span("span", rows=3) as span:
            dashcam.event("event", key="k")
            span.set(more="x")
        return "done"
    @dashcam.request("GET /d")
    def decorated(): return "done"
    def counts():
        orders.inc()
        dashcam.counter("sold").inc(2)
        _native.timing("took", 3.5, tags=TAGS)
        return "done"
    TAGS = {"shop": "x"}
    def fails():
        try:
            with dashcam.request("GET /f"): raise ERROR
        except LookupError: return "done"
    ERROR = LookupError("as it should")

    # A server, whose functions return what they hold.
    BODY, ENVIRON = [b"body"], {"REQUEST_METHOD": "GET", "PATH_INFO": "/a", "HTTP_TRACEPARENT":
                                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    class Server:
        base_env = ENVIRON
        def serves(self, application): return application(ENVIRON, None)
        def starts(self, status, headers): return status
        def logs(self, info): return info
        def submits(self, function): return function()
        def dispatches(self): return BODY
        def plain(self, one, *more, key=None): return key or one
        async def called(self, scope, receive, send): return BODY
    class Framework:
        def __call__(self, environ, start_response): return BODY
    server, info = Server(), (LookupError, ERROR, None)
    framework, application = Framework(), lambda environ, start_response: BODY
    variable = ContextVar("variable")
    variable.set(SimpleNamespace(request=SimpleNamespace(url_rule=SimpleNamespace(rule="/<a>"), method="GET")))
    SCOPE = {"type": "http", "method": "GET", "path": "/a", "headers": [(b"traceparent", b"x" * 55)]}
    def served(): return server.serves(application)
    def framed(): return framework(ENVIRON, None)
    def hooked(): return server.plain(BODY, 1, 2)
    def hooked_by_keyword(): return server.plain(1, key=BODY)
    def in_a_request(call):
        def inside():
            with dashcam.request("GET /a"): return call()
        inside.__name__ = call.__name__
        return inside
    @in_a_request
    def started(): return server.starts("500 Sorry", BODY)
    @in_a_request
    def logged(): return server.logs(info) is info
    @in_a_request
    def submitted(): return server.submits(BODY.copy)
    @in_a_request
    def dispatched(): return server.dispatches()
    async def awaits(): return await server.called(SCOPE, None, None)
    def awaited():
        try: awaits().send(None)
        except StopIteration as end: return end.value
    def hook():
        wsgi.serves(_native, Server, "serves", lambda server, application: wsgi.of_environ(server.base_env))
        wsgi.begins(_native, Framework, "__call__")
        wsgi.notes_status(_native, Server, "starts")
        wsgi.notes_error(_native, Server, "logs")
        asgi.begins(_native, Server, "called")
        _native.hook(Server, "submits", before=_native.hand_over_second)
        _native.hook(Server, "dispatches", before=_native.names_route(variable), after=_native.note_response)
        _native.hook(Server, "plain", before=lambda *a, **k: [a, k], after=lambda result, *a, **k: {"x": [result]} and None)
    operations = (NAMES)
    def answered(operation):
        try: return operation()
        except Exception as error: return error
    unraised = []
    sys.unraisablehook = lambda error: unraised.append(error.exc_type.__name__)
    def shown(answer):
        # CPython loses an exception for which there is no memory. Whichever code notices says so in its own words.
        lost = r"<[^>]*> returned NULL without setting an exception"
        said = re.sub(lost, "error return without exception set", repr((answer, sorted(unraised))))
        unraised.clear()
        return said
    REQUESTS = 10  # At least so many are counted when all operations have run.
    def compare(answers):
        "Runs all operations with all faults, bare and then recorded."
        bare, faults = {each: answers(each) for each in operations}, 0
        assert dashcam.start(slow="9s")
        hook()
        for operation in operations:
            got = answers(operation)
            faults += len(got)
            new = {answer: at for at, answer in enumerate(got) if answer not in bare[operation]}
            assert not new, (operation.__name__, new, set(bare[operation]))
        # All is well behind them.
        before = dashcam.status()["requests"]
        for each in operations: each()
        assert dashcam.status()["requests"] >= before + REQUESTS, dashcam.status()
        print(faults, "faults in", len(operations), "operations")
""".replace("NAMES", ", ".join(NAMES))

# In place of the operations above: units of work of servers and task queues that integrations hook
# with functions of Python's. Their modules are stand-ins; the integrations are real.
WORKERS = """
    from dashcam._integrations.frameworks import aiohttp, tornado
    from dashcam._integrations.jobs import celery, dramatiq, rq
    from dashcam._integrations.servers import http_server

    HEADERS = {"traceparent": ENVIRON["HTTP_TRACEPARENT"]}
    class Asked:
        method, path, headers, connection = "GET", "/a", HEADERS, None
    class Job:
        func_name, actor_name = "work", "work"
        def perform(self): return BODY
    class Worker:
        def process_message(self, message): return BODY
    class Message:
        def stuff_exception(self, exception): return exception
    class Loop:
        "What aiohttp and Tornado have of a server."
        request, transport = Asked(), None
        async def _handle_request(self, request, start): return BODY
        async def _execute(self, transforms): return BODY
        def get_status(self): return 200
    class Connection:
        command, path, headers, connection = "GET", "/a", HEADERS, None
        def parse_request(self): return BODY
        def send_response(self, code): return code
        def handle_one_request(self):
            asked = self.parse_request()
            return self.send_response(503) and asked
    def build_tracer(name, task):
        def trace(uuid, args, kwargs, request): return BODY
        return trace
    queue = SimpleNamespace(build_tracer=build_tracer)
    traced = build_tracer("work", None)
    job, worker, loop, open_connection = Job(), Worker(), Loop(), Connection()
    def task_of_celery(): return traced("1", (), {}, HEADERS)
    def job_of_rq(): return job.perform()
    def message_of_dramatiq(): return worker.process_message(job)
    def request_of_http_server(): return open_connection.handle_one_request()
    async def handled(): return await loop._handle_request(loop.request, 0)
    async def executed(): return await loop._execute(())
    def stepped(coroutine):
        try: coroutine.send(None)
        except StopIteration as end: return end.value
    def request_of_aiohttp(): return stepped(handled())
    def request_of_tornado(): return stepped(executed())
    def hook():
        global traced
        celery.patch(_native, queue)
        traced = queue.build_tracer("work", None)
        rq.patch(_native, SimpleNamespace(Job=Job))
        dramatiq.patch(_native, SimpleNamespace(_WorkerThread=Worker, MessageProxy=Message))
        http_server.patch(_native, SimpleNamespace(BaseHTTPRequestHandler=Connection))
        aiohttp.patch(_native, SimpleNamespace(RequestHandler=Loop))
        tornado.patch(_native, SimpleNamespace(RequestHandler=Loop))
    operations = (task_of_celery, job_of_rq, message_of_dramatiq, request_of_http_server, request_of_aiohttp,
                  request_of_tornado)
    REQUESTS = len(operations)
"""

# The same for functions that call other services: one of each naming, in a request. Hosts and services
# are properties, which a hook reads.
CALLS = """
    from dashcam._integrations import calls

    class Url:
        @property
        def host(self): return "example.org"
        @property
        def port(self): return 8080
    class Sent:
        method, url = "GET", Url()
    class Meta:
        @property
        def service_model(self): return self
        service_name = "s3"
    class Cursor:
        def execute(self, query, params=None): return BODY
    class AsyncCursor:
        async def execute(self, query, params=None): return BODY
    class DefaultDialect:
        def do_execute(self, cursor, statement, parameters): return BODY
    class CursorWrapper:
        @property
        def cursor(self): return self
        def _execute(self, sql, params): return BODY
    class Redis:
        def _send_command_parse_response(self, connection, command_name): return BODY
    class AsyncRedis:
        async def _send_command_parse_response(self, connection, command_name): return BODY
    class Pipeline:
        def execute(self): return BODY
    class Client:
        def _send_handling_redirects(self, request, *, history=None): return BODY
    class AsyncClient:
        async def _send_handling_redirects(self, request, *, history=None): return BODY
    class ClientResponse(Sent):
        async def start(self, connection): return BODY
    class HTTPConnectionPool:
        host, port = "example.org", None
        def urlopen(self, method, url): return BODY
    class BaseClient:
        meta = Meta()
        def _make_api_call(self, operation_name, parameters): return BODY
    class Refused(Client):
        def _send_handling_redirects(self, request, *, history=None): raise ERROR
    LIBRARIES = [
        ("psycopg.cursor", {"Cursor": Cursor}), ("psycopg.cursor_async", {"AsyncCursor": AsyncCursor}),
        ("sqlalchemy.engine.default", {"DefaultDialect": DefaultDialect}), ("aiohttp.client_reqrep", {"ClientResponse": ClientResponse}),
        ("django.db.backends.utils", {"CursorWrapper": CursorWrapper}), ("botocore.client", {"BaseClient": BaseClient}),
        ("redis.client", {"Redis": Redis, "Pipeline": Pipeline}), ("redis.asyncio.client", {"Redis": AsyncRedis, "Pipeline": Pipeline}),
        ("httpx._client", {"Client": Client, "AsyncClient": AsyncClient}), ("httpx._client", {"Client": Refused, "AsyncClient": AsyncClient}),
        ("urllib3.connectionpool", {"HTTPConnectionPool": HTTPConnectionPool}),
    ]
    cursor, async_cursor, dialect, django_cursor = Cursor(), AsyncCursor(), DefaultDialect(), CursorWrapper()
    redis, async_redis, pipeline, client, async_client = Redis(), AsyncRedis(), Pipeline(), Client(), AsyncClient()
    response, pool, api, sent, refused = ClientResponse(), HTTPConnectionPool(), BaseClient(), Sent(), Refused()
    async def asked(): return await async_cursor.execute("select a from b where c = 1")
    async def commanded(): return await async_redis._send_command_parse_response(None, "GET")
    async def requested(): return await async_client._send_handling_redirects(sent, history=BODY)
    async def answered_to(): return await response.start(None)
    @in_a_request
    def statement(): return cursor.execute("select a from b where c = 1")
    @in_a_request
    def statement_by_name(): return cursor.execute(query="select a from b where c = 2", params=BODY)
    @in_a_request
    def async_statement():
        # No call of the program's between the coroutine's making and its first step: it may fail, too.
        try: asked().send(None)
        except StopIteration as end: return end.value
    @in_a_request
    def statement_of_dialect(): return dialect.do_execute(BODY, "select a from b where c = 3", None)
    @in_a_request
    def statement_of_django(): return django_cursor._execute("select a from b where c = 4", None)
    @in_a_request
    def command(): return redis._send_command_parse_response(None, "GET")
    @in_a_request
    def async_command():
        try: commanded().send(None)
        except StopIteration as end: return end.value
    @in_a_request
    def commands(): return pipeline.execute()
    @in_a_request
    def sends(): return client._send_handling_redirects(sent, history=BODY)
    @in_a_request
    def async_sends():
        try: requested().send(None)
        except StopIteration as end: return end.value
    @in_a_request
    def async_answer():
        try: answered_to().send(None)
        except StopIteration as end: return end.value
    @in_a_request
    def pooled(): return pool.urlopen("GET", "/")
    @in_a_request
    def api_call(): return api._make_api_call("PutObject", None)
    @in_a_request
    def refused_call():
        try: return refused._send_handling_redirects(sent)
        except LookupError: return "refused"
    def hook():
        for name, classes in LIBRARIES: calls.patch(_native, SimpleNamespace(__name__=name, **classes))
    operations = (CALLED)
    REQUESTS = len(operations)
"""
CALLED = (
    "statement",
    "statement_by_name",
    "async_statement",
    "statement_of_dialect",
    "statement_of_django",
    "command",
    "async_command",
    "commands",
    "sends",
    "async_sends",
    "async_answer",
    "pooled",
    "api_call",
    "refused_call",
)
CALLS = CALLS.replace("CALLED", ", ".join(CALLED))
