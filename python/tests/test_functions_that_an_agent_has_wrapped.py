"""A function that another agent wrapped before dashcam came: the agent still finds its wrapper, can take
it away, and the function is hooked once, with the wrapper and without."""

from __future__ import annotations

import pytest

from conftest import Bench

# What wrapt does, by which most agents wrap: an object whose class answers as the wrapped function's,
# and a descriptor `__wrapped__`. `Held` is as wrapt's own fallback in Python, `Set` as its C type.
PROXIES = """
    import inspect, sys, types
    import dashcam
    from dashcam import _native as native
    calls, seen = [], []

    class Held:
        __slots__ = ("__wrapped__", "owner")
        def __init__(self, wrapped, owner=None): self.__wrapped__, self.owner = wrapped, owner
        __class__ = property(lambda self: self.__wrapped__.__class__)
        def __getattr__(self, name): return getattr(self.__wrapped__, name)
        def __get__(self, owner, kind=None): return self if owner is None else type(self)(self.__wrapped__, owner)
        def __call__(self, *args):
            calls.append("agent")
            return self.__wrapped__(*args) if self.owner is None else self.__wrapped__.__get__(self.owner)(*args)

    class Set(Held):
        __slots__ = ("inner",)
        __wrapped__ = property(lambda self: self.inner, lambda self, one: setattr(self, "inner", one))

    class Server:
        def serve(self, path): return f"served {path}"
    def plain(path): return f"plain {path}"
    this = sys.modules[__name__]
    def before(*args): seen.append(args[-1])
    def unwrap(holder, name):
        "As opentelemetry.instrumentation.utils.unwrap: only what is a proxy is taken away."
        wrapper = vars(holder)[name]
        if isinstance(wrapper, Held): setattr(holder, name, wrapper.__wrapped__)
"""


@pytest.mark.parametrize("kind", ["Held", "Set"])
@pytest.mark.parametrize("deep", [1, 3])
def test_the_wrapper_remains_and_can_be_taken_away(bench: Bench, kind: str, deep: int) -> None:
    result = bench.python(PROXIES + f"""
    for holder, name, call, answer in ((Server, "serve", lambda: Server().serve("/a"), "served /a"),
                                       (this, "plain", lambda: this.plain("/b"), "plain /b")):
        for _ in range({deep}): setattr(holder, name, {kind}(vars(holder)[name]))
        wrapper = vars(holder)[name]
        native.hook(holder, name, before=before)
        assert vars(holder)[name] is wrapper and isinstance(wrapper, {kind}), type(vars(holder)[name])
        assert (call(), calls, seen) == (answer, ["agent"] * {deep}, [answer.split()[1]]), (calls, seen)
        native.hook(holder, name, before=before)
        calls.clear(), seen.clear()
        for _ in range({deep}): unwrap(holder, name)
        assert not isinstance(vars(holder)[name], Held)
        assert isinstance(vars(holder)[name], types.FunctionType)
        assert (call(), calls, seen) == (answer, [], [answer.split()[1]]), (calls, seen)
        calls.clear(), seen.clear()
    """)
    assert result.returncode == 0, result.stderr


def test_a_function_that_merely_names_what_it_wraps_is_hooked_itself(bench: Bench) -> None:
    result = bench.python(PROXIES + """
    import functools
    original = Server.serve
    @functools.wraps(original)
    def wrapper(self, path):
        calls.append(path)
        return original(self, path + "?")
    Server.serve = wrapper
    native.hook(Server, "serve", before=before)
    assert (Server().serve("/a"), calls, seen) == ("served /a?", ["/a"], ["/a"]), (calls, seen)
    assert Server.serve == wrapper and Server.serve.__wrapped__ is original
    """)
    assert result.returncode == 0, result.stderr


def test_a_proxy_that_wraps_itself_is_passed_over(bench: Bench) -> None:
    result = bench.python(PROXIES + """
    Server.serve = Set(Server.serve)
    wrapper = vars(Server)["serve"]
    wrapper.__wrapped__ = wrapper
    native.hook(Server, "serve", before=before)
    class_method = Held(classmethod(lambda cls: 1))
    Server.kind = class_method
    try: native.hook(Server, "kind", before=before)
    except TypeError as error: assert "wanted a function" in str(error), error
    else: raise AssertionError("a class method was hooked")
    assert vars(Server)["kind"] is class_method
    """)
    assert result.returncode == 0, result.stderr
