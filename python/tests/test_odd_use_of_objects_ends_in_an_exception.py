"""Objects of dashcam's that a program may reach end the oddest use in an exception, never the process."""

from __future__ import annotations

import pytest
from conftest import Bench


def run(bench: Bench, code: str) -> None:
    """Runs a program in which memory that was freed is overwritten."""
    result = bench.python(code, PYTHONMALLOC="debug")
    assert result.returncode == 0, (result.returncode, result.stderr[-3000:])


def test_names_of_a_subtype_of_str_are_read_as_their_text(bench: Bench) -> None:
    # A subtype's hash and comparison are code of the program, which ran while a record was made of the other values.
    wanted = sorted(["begun", "bound", "counted", "event", "request", "set", "span", "tag", "tagged"])
    run(bench, """
        import gc
        import dashcam
        from dashcam import _native as native
        assert dashcam.start(slow="9s")
        class Text(str):
            hashed, gone = 0, []
            def __hash__(self):
                Text.hashed += 1
                return str.__hash__(self)
            def __del__(self): Text.gone.append(str(self))
        given = [{Text(name): 1} for name in ("request", "span", "set", "event")]
        Text.hashed = 0
        with dashcam.request("GET /", **given[0]) as request, dashcam.span("a", first=1, **given[1]) as span:
            span.set(second=2, **given[2])
            dashcam.event("e", first=1, **given[3])
            keys = [type(key) for one in (request, span) for key in one.attributes]
        # A framework's names are of any type, too.
        native.request_end(native.request_begin(Text("begun")))
        tags = {Text("tag"): Text("tagged")}
        Text.hashed = 0
        dashcam.counter(Text("bound")).inc()
        dashcam.count(Text("counted"), tags=tags)
        assert set(keys) == {str} and Text.hashed == 0, (keys, Text.hashed)
        del given, tags, request, span
        gc.collect()
        assert sorted(Text.gone) == WANTED, Text.gone
    """.replace("WANTED", repr(wanted)))


def test_attributes_may_be_set_while_others_are_released(bench: Bench) -> None:
    run(bench, """
        import gc
        import dashcam
        kind, found = type(dashcam.span("any")), []
        class Odd:
            def __del__(self):
                for one in gc.get_objects():
                    if type(one) is kind and one.name == "second":
                        one.set(a=1, b=2, c=3)
                        found.append(one)
        chain = dashcam.span("first", chain=dashcam.span("second", one=Odd(), two=[2], three=[3]))
        del chain
        [second] = found
        assert second.attributes == {"a": 1, "b": 2, "c": 3}, second.attributes
    """)


def test_what_an_awaitable_returns_is_seen_as_the_awaiting_code_gets_it(bench: Bench) -> None:
    run(bench, """
        import dashcam
        from dashcam import _native as native
        class Stop(StopIteration):
            "Makes a new value each time it is read."
            @property
            def value(self): return ["not", "this"]
        class Awaitable:
            def __await__(self): return self
            def __iter__(self): return self
            def __next__(self): raise Stop("result")
            def send(self, value): raise Stop("result")
            def throw(self, *error): raise error[0]
            def close(self): pass
        async def awaits(): return await native.seen(Awaitable(), seen.append)
        seen = []
        try: native.seen(Awaitable(), seen.append).send(None)
        except Stop: pass
        try: awaits().send(None)
        except StopIteration as end: seen.append(end.value)
        assert seen == ["result"] * 3, seen
    """)


def test_a_class_may_lose_its_iterator(bench: Bench) -> None:
    run(bench, """
        import dashcam
        from dashcam import _native as native
        class Awaitable:
            def __await__(self): return iter([])
            __iter__ = __await__
        def refused(one):
            try: iter(one)
            except TypeError as error: return str(error)
        bare = Awaitable()
        seen = native.seen(bare, print)
        del Awaitable.__iter__
        assert refused(seen) == refused(bare) != None
    """)


# What a program can reach without a name of dashcam's: by `type(x)`, and in the dict of that.
OBJECTS = {
    "a hooked function": "native.hooked(function)", "work": "native.work(1, function)", "a coroutine": "native.seen(coroutine(), print)",
    "its wrapper": "native.seen(coroutine(), print).__await__()", "an awaitable": "native.seen(Awaitable(), print)",
    "its iterator": "native.seen(Awaitable(), print).__await__()", "a span": "dashcam.span('a', odd=[1])", "a request": "dashcam.request('a')",
    "a bound method": "dashcam.span('a').__enter__", "a method": "vars(type(dashcam.span('a')))['__enter__']",
}


@pytest.mark.parametrize("name", OBJECTS)
def test_each_slot_and_method_refuses_what_is_not_for_it(bench: Bench, name: str) -> None:
    run(bench, """
        import copy, gc, pickle, sys, warnings, weakref
        import dashcam
        from dashcam import _native as native
        warnings.simplefilter("ignore")
        def function(): pass
        async def coroutine(): pass
        class Awaitable:
            def __await__(self): return iter([1])
        x = OBJECT
        kind, others = type(x), [dashcam.span("other"), native.seen(coroutine(), print), native.work(1, function)]
        # Taken for a str, these bytes say that its characters are at an address where nothing is.
        odd = [(), (x,), (x, x), (x, 5), (x, None), (x, "a"), (x, b"\\x84" * 99), (x, "a", 3), (x, x, x), (None, x), (x, None, None, None), (5, 5)]
        def tried(call, *given):
            try: call(*given)
            except Exception: pass
        for base in kind.__mro__[:-1]:
            tried(base), tried(base.__new__, base), tried(object.__new__, base), tried(lambda: type("Below", (base,), {})())
        for call in (copy.copy, copy.deepcopy, pickle.dumps, weakref.ref, gc.get_referents, gc.get_referrers, sys.getsizeof,
                     object.__dir__, object.__sizeof__, object.__repr__): tried(call, x)
        tried(object.__reduce_ex__, x, 2)
        for member in dir(kind):
            found = vars(kind).get(member)
            for given in odd:
                tried(lambda: getattr(kind, member)(*given))
            for owner in (x, 5, None): tried(lambda: found.__get__(owner, kind))
            tried(lambda: found.__set__(x, 5)), tried(lambda: found.__delete__(x)), tried(object.__getattribute__, x, member)
        for other in others: tried(object.__setattr__, x, "__class__", type(other))
        del x, odd, given, owner, found
        gc.collect()
    """.replace("OBJECT", OBJECTS[name]))
