"""The hooked functions of the real libraries: looked at, called wrongly, patched, derived from,
interrupted, they answer bare and recorded alike.

Generated from the list of hooks (`dashcam._integrations.calls`): each of its modules is a program
that runs its cases twice in one process (`compared`). No library has a server here: a call fails
inside of the library, with the library's frames.
"""

from __future__ import annotations

import importlib.util

import pytest
from compared import run
from conftest import Bench
from dashcam._integrations.calls import HOOKED

BEGIN = """
    import copy, functools, importlib, pickle, threading, weakref
    from unittest import mock
    from dashcam._integrations.calls import HOOKED
    module = importlib.import_module(MODULE)
    FOUND = [(getattr(module, holder), name) for holder, name, _ in HOOKED[MODULE] if hasattr(getattr(module, holder), name)]
    assert FOUND
    sys.unraisablehook = lambda one: None  # destructors of objects that were never initialized
    def frames(error):
        return [(f.filename.rpartition("/")[2], f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    def failed(call, *args, **kwargs):
        try: result = call(*args, **kwargs)
        except BaseException as error:
            return type(error).__name__, str(error), frames(error), repr(error.__context__), repr(error.__cause__)
        return driven(result)
    def driven(result):
        "A coroutine's end, through its first wait."
        if not inspect.iscoroutine(result): return "gave", repr(result)
        said = repr(result), inspect.getcoroutinestate(result)
        try: return said, "yielded", repr(result.send(None))
        except StopIteration as end: return said, "returned", repr(end.value)
        except BaseException as error: return said, type(error).__name__, str(error), frames(error), repr(error.__context__)
        finally: result.close()
    class Text(str):
        "A str that must not be asked."
        def __hash__(self): raise LookupError("hashed")
        def __eq__(self, other): raise LookupError("compared")
        def __str__(self): raise LookupError("printed")
    class Odd:
        def __getattr__(self, name): raise LookupError("asked for an attribute")
        def __str__(self): raise LookupError("printed")
        def __repr__(self): return "<odd>"
        __hash__ = None
    class Shown: pass
    TYPES = {"text": lambda: "select 1", "none": lambda: None, "number": lambda: 5, "bytes": lambda: b"GET", "odd": Odd,
             "own text": lambda: Text("select 2"), "list": list, "lone surrogate": lambda: "\\udc80", "empty": str,
             "long": lambda: "x" * 5_000, "mock": lambda: mock.NonCallableMock(name="given"), "object": Shown}
    def made(owner):
        "An object that was not initialized."
        instance = owner.__new__(owner)
        # Those that ask another object for what they have not would ask themselves for it for ever.
        if hasattr(owner, "__getattr__"): vars(instance).update(cursor=None, meta=types.SimpleNamespace(service_model=None))
        return instance
    def given(function, make):
        "Arguments for it: the required ones, behind `self`."
        first, *rest = inspect.signature(function).parameters.values()
        empty = inspect.Parameter.empty
        kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        return [make() for one in rest if one.default is empty and one.kind in kinds]
    cases = {}
    def each(case):
        for owner, name in FOUND: cases[f"{case.__name__} {owner.__name__}.{name}"] = functools.partial(case, owner, name)
        return case
"""


def programs(bench: Bench, module: str, code: str, compared: str = "compare(cases)") -> None:
    if importlib.util.find_spec(module.split(".")[0]) is None:
        pytest.skip(f"no {module}")
    run(bench, f"    MODULE = {module!r}" + BEGIN + code + f"\n    {compared}\n" + BEHIND)


# Calls were recorded, none was refused.
BEHIND = """
    from dashcam import _notices
    assert not [text for text in _notices.notices() if "Python" in text or "hook" in text], _notices.notices()
"""

each_module = pytest.mark.parametrize("module", HOOKED)


@each_module
def test_it_looks_as_bare(bench: Bench, module: str) -> None:
    programs(bench, module, """
    @each
    def facts(owner, name):
        function, bound = getattr(owner, name), getattr(made(owner), name)
        return (kinds(function), kinds(bound), str(inspect.signature(function)), str(inspect.signature(bound)),
                function.__name__, function.__qualname__, function.__doc__, function.__module__, function.__defaults__,
                function.__kwdefaults__, sorted(function.__annotations__), function.__code__.co_flags, function.__dict__,
                function.__code__.co_name, inspect.getsource(function), inspect.getsourcelines(bound)[1], inspect.getmodule(function).__name__,
                inspect.unwrap(function) is function, hasattr(function, "__wrapped__"), copy.copy(function) is function,
                copy.deepcopy(function) == function, pickle.loads(pickle.dumps(function)) == function,
                pickle.dumps(function), pickle.loads(pickle.dumps(owner)) is owner, weakref.ref(function)() is function,
                hash(function) == hash(getattr(owner, name)), function == getattr(owner, name), bound == getattr(bound.__self__, name),
                bound.__func__ == function, bound.__name__, [one for one in vars(owner) if not one.startswith("__annotat")],  # made when asked for
                inspect.getattr_static(owner, name) == function,
                [(a.name, a.kind, a.defining_class.__name__) for a in inspect.classify_class_attrs(owner) if a.name == name],
                isinstance(function, types.FunctionType), isinstance(bound, types.MethodType), type(bound).__name__,
                type(function).__name__, str(type(function)), repr(function), repr(inspect.getfullargspec(function)),
                failed(lambda: function.nothing), failed(lambda: vars(function)), function.__closure__ is None)
    @each
    def wrapped(owner, name):
        function = getattr(owner, name)
        @functools.wraps(function)
        def around(*args, **kwargs): return function(*args, **kwargs)
        method = functools.partialmethod(function, "x")
        return (str(inspect.signature(around)), around.__wrapped__ == function, kinds(around), kinds(functools.partial(function)),
                str(inspect.signature(functools.partial(function, "x"))), repr(method), repr(functools.singledispatch(function)),
                str(inspect.signature(mock.create_autospec(function))), kinds(mock.create_autospec(function)))
    """)


@each_module
def test_a_wrong_call_is_refused_as_bare(bench: Bench, module: str) -> None:
    programs(bench, module, """
    @each
    def wrong(owner, name):
        function, said = getattr(owner, name), []
        for instance in ([], [made(owner)], [5]):
            for args in ([], ["x"] * 20):
                for named in ({}, {"no_such": 1}, {"self": 1}, {str(n): n for n in range(20)}):
                    said.append(failed(function, *instance, *args, **named))
        bound = getattr(made(owner), name)
        said += [failed(bound, *["x"] * 20), failed(bound, no_such=1), failed(bound, **{"self": 2}), failed(lambda: function(**{1: 2}))]
        return said
    for kind in TYPES:
        def odd(owner, name, make=TYPES[kind]):
            function, instance = getattr(owner, name), made(owner)
            by_position = failed(function, instance, *given(function, make))
            names = list(inspect.signature(function).parameters)[1:]
            by_name = failed(functools.partial(function, instance, **dict(zip(names, given(function, make)))))
            return by_position, by_name, failed(getattr(instance, name), *given(function, make))
        odd.__name__ = kind
        each(odd)
    """)


@each_module
def test_what_programs_do_with_it_works_as_bare(bench: Bench, module: str) -> None:
    programs(bench, module, """
    def calls(owner, name, make=TYPES["text"]):
        instance = made(owner)
        return failed(getattr(instance, name), *given(vars(owner)[name], make))
    @each
    def patched(owner, name):
        before, arguments = vars(owner)[name], given(getattr(owner, name), TYPES["text"])
        with mock.patch.object(owner, name, autospec=True) as double:
            double.return_value = "double"
            said = failed(getattr(made(owner), name), *arguments), str(double.call_args)[:200], failed(getattr(owner, name))
        with mock.patch.object(owner, name) as double: said += (failed(getattr(made(owner), name), 1, 2), repr(double.mock_calls))
        with mock.patch.object(owner, name, lambda *args: "other"): said += calls.__get__(0) and (repr(getattr(made(owner), name)()),)
        return said, vars(owner)[name] is before, calls(owner, name)
    @each
    def patched_by_hand(owner, name):
        before, seen = vars(owner)[name], []
        @functools.wraps(before)
        def around(self, *args, **kwargs):
            seen.append(len(args))
            return before(self, *args, **kwargs)
        setattr(owner, name, around)
        try: said = calls(owner, name), kinds(getattr(owner, name))
        finally: setattr(owner, name, before)
        return said, seen, calls(owner, name)
    @each
    def on_the_instance(owner, name):
        class Below(owner): pass
        instance = made(Below)
        setattr(instance, name, lambda *args: ("own", args))
        return repr(getattr(instance, name)(1, 2))
    @each
    def derived(owner, name):
        namespace = {"owner": owner}
        prefix = "async " if inspect.iscoroutinefunction(getattr(owner, name)) else ""
        wait = "await " if prefix else ""
        exec(f"class Below(owner):\\n {prefix}def {name}(self, *args, **kwargs):\\n  return {wait}super().{name}(*args, **kwargs)", namespace)
        exec(f"class Mixed:\\n {prefix}def {name}(self, *args, **kwargs):\\n  return {wait}super().{name}(*args, **kwargs)\\n"
             "class Both(Mixed, owner): pass", namespace)
        said = []
        for kind in ("Below", "Both"):
            instance = made(namespace[kind])
            said.append(failed(getattr(instance, name), *given(getattr(owner, name), TYPES["text"])))
        return said
    @each
    def in_threads(owner, name):
        said = []
        threads = [threading.Thread(target=lambda: said.append(calls(owner, name))) for _ in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        return said
    @each
    def many_times(owner, name): return {outcome(lambda: calls(owner, name), False) for _ in range(100)}
    @each
    def mapped(owner, name):
        function = getattr(owner, name)
        return failed(lambda: list(map(function, [5]))), failed(lambda: functools.partial(function, 5)(*given(function, TYPES["none"])))
    """)


@each_module
def test_a_patch_around_the_start_of_dashcam_comes_off_as_bare(bench: Bench, module: str) -> None:
    programs(bench, module, """
    patches = []
    for owner, name in FOUND:
        before = vars(owner)[name]
        @functools.wraps(before)
        def around(self, *args, before=before, **kwargs): return before(self, *args, **kwargs)
        try: setattr(owner, name, before)
        except TypeError: continue  # a class in C
        patches.append(mock.patch.object(owner, name, around))
    @each
    def calls(owner, name):
        function, instance = getattr(owner, name), made(owner)
        return failed(function, instance, *given(function, TYPES["text"])), kinds(function), str(inspect.signature(function)), failed(function)
    unpatched = {case: outcome(call, True) for case, call in cases.items()}
    for patch in patches: patch.start()
    compare(cases)
    for patch in patches: patch.stop()
    for case, call in cases.items(): assert outcome(call, True) == unpatched[case], case
    """, "")
