"""A hooked function remains the same for all code: its callers, code that inspects it, and code
that it calls.
"""

from __future__ import annotations

from conftest import Bench

BEGIN = """
    import asyncio, copy, functools, gc, inspect, logging, pickle, pydoc, sys, traceback, types, typing, warnings, weakref
    import dashcam
    from dashcam import _native as native, _notices
    IN_PLACE = sys.version_info[:2] != (3, 11)
    calls = []

    class Base:
        "Its text."
        def method(self, a: int, b: str = "b", *args: int, c: float = 1.0, **more: bool) -> tuple:
            "What it does."
            return self, a, b, args, c, more
        def plain(self, a): return a
        def raises(self, error): raise error
        async def waits(self, value):
            await asyncio.sleep(0)
            return value
        async def yields(self): yield 1
        def generates(self): yield 1
        def __init__(self, value=0): self.value = value
        def __call__(self, value): return value
        def __getitem__(self, key): return key
        @property
        def attribute(self): return self.plain(5)
        def frames(self): return [frame.function for frame in inspect.stack()]
        def warns(self): warnings.warn("w", stacklevel=2)
        def logs(self): logging.getLogger("x").warning("logged", stacklevel=2)
        method.own = 7

    class Below(Base):
        def plain(self, a): return super().plain(a)

    def module_level(*args, **kwargs): return args, kwargs
    this = sys.modules[__name__]
    NAMES = ["method", "plain", "raises", "waits", "yields", "generates", "__init__", "__call__", "__getitem__",
             "frames", "warns", "logs"]
    def hook_all(**parts):
        for name in NAMES: native.hook(Base, name, **parts)
        native.hook(this, "module_level", **parts)
    def note(*args, **kwargs): calls.append((args, kwargs))
"""


def run(bench: Bench, code: str) -> None:
    """Runs a program, which reports its own errors."""
    result = bench.python(BEGIN + code)
    assert result.returncode == 0, result.stderr


def test_inspecting_a_hooked_function_gives_the_same(bench: Bench) -> None:
    run(bench, """
    OF_FUNCTIONS = [key for key, value in vars(types.FunctionType).items()
                    if (inspect.isgetsetdescriptor(value) or inspect.ismemberdescriptor(value))
                    and key != "__module__"]  # a stand-in's is its type's
    def asked(name):
        function, bound = getattr(Base, name), getattr(Base(), name)
        answers = [(key, getattr(function, key, "none")) for key in dir(function)
                   if key not in ("__getattribute__", "__call__", "__get__", "__delattr__", "__dir__", "__eq__",
                                  "__format__", "__ge__", "__gt__", "__hash__", "__init__", "__init_subclass__",
                                  "__le__", "__lt__", "__ne__", "__new__", "__reduce__", "__reduce_ex__", "__repr__",
                                  "__setattr__", "__sizeof__", "__str__", "__subclasshook__", "__getstate__")]
        kinds = [name for name, kind in inspect.getmembers(inspect, callable)
                 if name.startswith("is") and name not in ("iskeyword",) and kind(function)]
        kinds += [name for name, kind in inspect.getmembers(inspect, callable)
                  if name.startswith("is") and name != "iskeyword" and kind(bound)]
        return (answers, kinds, inspect.signature(function), inspect.signature(bound), typing.get_type_hints(function),
                inspect.getsource(function), inspect.getdoc(function), inspect.unwrap(function) is function,
                pydoc.render_doc(function), [object.__getattribute__(function, key) for key in OF_FUNCTIONS],
                repr(function), str(function), hash(function), dir(function), callable(function),
                isinstance(function, types.FunctionType), type(bound), isinstance(bound, types.MethodType),
                function == function, function in [function], repr(type(function)),
                asyncio.iscoroutinefunction(function) if sys.version_info < (3, 14) else None,
                function.__get__(5, int)(*[2] * 0) if name == "never" else None,
                inspect.getfullargspec(function), weakref.ref(function)() is function,
                copy.copy(function) is function, copy.deepcopy(function) is function,
                pickle.loads(pickle.dumps(function)) is function, hasattr(function, "__wrapped__"),
                hasattr(function, "nothing"), function.__dict__)
    before = {name: asked(name) for name in NAMES}
    held = Base.method
    hook_all(before=note)
    after = {name: asked(name) for name in NAMES}
    for name in NAMES:
        for one, other in zip(before[name], after[name]): assert one == other, (name, one, other)
    assert Base.method == held and (Base.method is held) == IN_PLACE
    Base.method.other = 8
    assert held.other == 8 and Base.method.__dict__ == {"own": 7, "other": 8}
    del Base.method.other
    assert not hasattr(held, "other")
    try: Base.method.nothing
    except AttributeError as error: assert str(error) == "'function' object has no attribute 'nothing'", error
    assert calls  # by the objects that were made
    """)


def test_however_it_is_called_it_is_called_once_with_what_was_given(bench: Bench) -> None:
    run(bench, """
    def every_way():
        base, below, many = Base(1), Below(), list(range(20))
        words = {f"k{n}": n for n in range(20)}
        got = [base.method(1), base.method(1, 2, 3, c=4, d=5), Base.method(base, *many, **words),
               base.method(*[1, 2]), base.method(**{"a": 1}), base.method(1, **words), functools.partial(base.method, 1)(2),
               list(map(base.plain, [1, 2])), sorted([3, 1], key=base.plain), base.attribute, below.plain(9),
               base(6), base[7], base.value, Base(value=3).value, type(base)(4).value, list(base.generates()),
               asyncio.run(base.waits(8)), types.MethodType(Base.plain, base)(1), module_level(), module_level(1, x=2),
               module_level(*many, **words), Base.__call__(base, 3), getattr(base, "plain")(2)]
        for _ in range(3000):  # the interpreter's call sites adapt themselves
            assert base.plain(5) == 5 and Base(6).value == 6 and base(1) == 1 and base[2] == 2
        got = [one if not isinstance(one, tuple) or one[:1] != (base,) else one[1:] for one in got]
        for bad in (lambda: base.method(), lambda: base.plain(1, 2), lambda: base.plain(a=1, b=2), lambda: Base.plain()):
            try: bad()
            except TypeError as error: got.append(str(error))
        return got
    def warm_up():
        for _ in range(3000): every_way.__code__
    first = every_way()
    hook_all(before=note, after=lambda result, *args, **kwargs: None, failed=note)
    calls.clear()
    assert every_way() == first
    # Each call was seen: those in loops, and the others.
    assert len(calls) > 4 * 3000 + 30, len(calls)
    calls.clear()
    base = Base(2)
    assert calls == [((base, 2), {})], calls
    def traced(frame, event, arg): return traced
    sys.settrace(traced)
    got = every_way()
    sys.settrace(None)
    assert got == first
    """)


def test_no_frame_of_ours_is_seen(bench: Bench) -> None:
    run(bench, """
    records = []
    class Handler(logging.Handler):
        def emit(self, record): records.append((record.funcName, record.lineno))
    logging.getLogger("x").addHandler(Handler())
    def seen():
        base, got = Base(), []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            base.warns(); base.logs()
            got.append([(w.filename, w.lineno) for w in caught])
        got += [base.frames(), list(records)]
        records.clear()
        try: base.raises(LookupError("x"))
        except LookupError as error:
            got.append([(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)])
            assert error.__context__ is None and error.__cause__ is None
        return got
    bare = [seen() for _ in range(2)][1]
    hook_all(before=note, after=lambda result, *args: None, failed=note)
    hooked = [seen() for _ in range(2)][1]
    assert hooked == bare, (hooked, bare)
    assert ("LookupError",) == calls[-1][0][:1], calls[-1]
    """)


def test_what_is_wrong_with_us_is_ours(bench: Bench) -> None:
    run(bench, """
    def fails(*args, **kwargs): raise ValueError("ours")
    def wants_more(a, b, c, d, e): pass
    hook_all(before=fails, after=fails, failed=wants_more)
    base = Base()
    for _ in range(3):
        assert base.plain(1) == 1
        try: base.raises(KeyError("theirs"))
        except KeyError as error: assert error.args == ("theirs",) and error.__context__ is None
        else: raise AssertionError
    said = [text for text in _notices.notices() if "plain" in text]
    assert len(said) == 1 and "ours" in said[0], _notices.notices()
    # What is no error goes on: the program is interrupted.
    def interrupts(*args, **kwargs): raise KeyboardInterrupt
    def target(): calls.append("target")
    for part in ("before", "after"):
        def target(): calls.append("target")
        native.hook(this, "target", **{part: interrupts})
        calls.clear()
        try: target()
        except KeyboardInterrupt: assert calls == ([] if part == "before" else ["target"])
        else: raise AssertionError(part)
    """)


def test_a_hook_may_give_other_arguments_and_another_result(bench: Bench) -> None:
    run(bench, """
    def other(self, a): return (self, a + 1), {}
    native.hook(Base, "plain", before=other, after=lambda result, self, a: (result, a))
    assert Base().plain(1) == (2, 1) and Below().plain(1) == (2, 1)
    def named(*args, **kwargs): return args[:1], {**kwargs, "z": 1}
    native.hook(this, "module_level", before=named)
    assert module_level(1, 2, x=3) == ((1,), {"x": 3, "z": 1})
    # Answers of another shape say nothing.
    for answer in (1, (1,), ((), {}, 1), ([], {}), ((), [])):
        def target(*args): return args
        native.hook(this, "target", before=lambda *args: answer)
        assert target(1) == (1,), answer
    # A second hook on one that has one: the first stays.
    native.hook(Base, "plain", after=lambda *args: "second")
    assert Base().plain(1) == (2, 1)
    """)


def test_its_own_methods_count_their_arguments(bench: Bench) -> None:
    run(bench, """
    hook_all()
    for wrong in (lambda: this.module_level.__reduce_ex__(), lambda: this.module_level.__reduce_ex__(2, 3),
                  lambda: type(this.module_level).__dir__(this.module_level, 1)):
        try: wrong()
        except TypeError: continue
        raise AssertionError(wrong)
    # Of the other versions the function itself is hooked, which pickle knows by its type.
    if sys.version_info[:2] == (3, 11): assert this.module_level.__reduce_ex__(2) == "module_level"
    """)


def test_other_objects_are_not_hooked(bench: Bench) -> None:
    run(bench, """
    class Odd:
        @staticmethod
        def static(): pass
        @classmethod
        def of_class(cls): pass
        @property
        def prop(self): pass
        number = 5
    kept = dict(vars(Odd))
    for name in ("static", "of_class", "prop", "number", "missing"):
        try: native.hook(Odd, name, before=note)
        except (TypeError, AttributeError) as error: assert name in str(error), error
        else: raise AssertionError(name)
    assert dict(vars(Odd)) == kept
    # A callable of another kind that a class has: as a function.
    class Callable:
        def __call__(self, *args): return args
        mark = 1
    class Holder: call = Callable()
    native.hook(Holder, "call", before=note)
    assert Holder.call(1) == (1,) and Holder.call.mark == 1 and calls
    """)


def test_a_hooked_callable_is_freed_with_its_last_reference(bench: Bench) -> None:
    run(bench, """
    class Given: pass
    def make():
        given = Given()
        def function(*args): return args, given
        return native.hooked(function, before=note, after=lambda *args: None), weakref.ref(given)
    function, mark = make()
    assert function(1)[0] == (1,) and calls == [((1,), {})]
    inner = weakref.ref(function)
    del function
    gc.collect()
    assert mark() is None and inner() is None
    """)


def test_builtins_remain_the_same_objects(bench: Bench) -> None:
    result = bench.python("""
    import os, pickle, signal, sys
    names = [(os, "_exit"), (os, "execv"), (os, "execve"), (signal, "raise_signal"), (os, "fork"), (os, "forkpty")]
    def asked():
        functions = [getattr(*name) for name in names]
        return functions, [(f.__name__, f.__doc__, f.__text_signature__, repr(f), f.__module__, type(f), f.__self__)
                           for f in functions], [pickle.dumps(f) for f in functions]
    bare = asked()
    import dashcam
    assert dashcam.start(slow="9s")
    assert asked() == bare
    for bad in (lambda: os._exit(), lambda: os._exit("x"), lambda: os.execv(), lambda: os.execve(1),
                lambda: signal.raise_signal("x"), lambda: signal.raise_signal()):
        try: bad()
        except TypeError: pass
        else: raise AssertionError
    seen = []
    signal.signal(signal.SIGTERM, lambda *args: seen.append(args[0]))
    signal.raise_signal(signal.SIGTERM)
    assert seen == [signal.SIGTERM] and dashcam.status()["on"], dashcam.status()
    child = os.fork()
    if child == 0: os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    child = os.fork()
    if child == 0: os.execv(sys.executable, [sys.executable, "-c", "raise SystemExit(5)"])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    child, terminal = os.forkpty()
    if child == 0:
        os.write(1, b"in the terminal")
        os._exit(0)
    assert os.read(terminal, 100) == b"in the terminal"
    os.waitpid(child, 0)
    """)
    assert result.returncode == 0, result.stderr


FORKS = """
    import os, sys, threading, time, warnings
    warns = sys.version_info >= (3, 12)
    forks = (os.fork, os.forkpty)
    def forked(fork):
        child = fork()
        child = child[0] if isinstance(child, tuple) else child
        if child == 0: os._exit(0)
        os.waitpid(child, 0)
        return "a child"
    def warned(fork):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            forked(fork)
        return [(w.category, str(w.message), w.filename, w.lineno) for w in caught]
    def gone(thread):
        "Up to 3.12 the kernel's thread goes behind the join."
        while os.path.exists(f"/proc/self/task/{thread}"): time.sleep(0.001)
    class Beside:
        "A thread of the program's own."
        def __init__(self):
            self.stop = threading.Event()
            self.thread = threading.Thread(target=self.stop.wait)
            self.thread.start()
        def end(self):
            self.stop.set()
            self.thread.join()
            gone(self.thread.native_id)
    def compare(seen):
        bare = seen()
        import dashcam
        assert dashcam.start(slow="9s")
        recorded = seen()
        assert recorded == bare, f"{recorded}\\n{bare}"
        return bare
    """


def test_a_fork_beside_our_threads_warns_as_bare(bench: Bench) -> None:
    result = bench.python(FORKS + """
    events, order = [], []
    sys.addaudithook(lambda name, args: events.append(name) if name.startswith("os.fork") else None)
    os.register_at_fork(before=lambda: order.append("before"), after_in_parent=lambda: order.append("after"))
    def refused(fork):
        "With the warning as an error."
        warnings.simplefilter("error")
        try: return forked(fork)
        except DeprecationWarning as error: return str(error)
        finally: warnings.resetwarnings()
    def all_of_them():
        for found in (events, order): found.clear()
        return [[warned(fork) for fork in forks], [refused(fork) for fork in forks], list(events), list(order)]
    def beside_another():
        other = Beside()
        try: return all_of_them()
        finally: other.end()
    alone, beside = compare(lambda: [all_of_them(), beside_another()])
    assert alone[:2] == [[[], []], ["a child"] * 2] and [len(said) for said in beside[0]] == [warns] * 2, (alone, beside)
    """)
    assert result.returncode == 0, result.stderr


def test_a_fork_counts_threads_when_the_interpreter_does(bench: Bench) -> None:
    """Hooks of the fork end a thread, or start one."""
    result = bench.python(FORKS + """
    ending, starting, order = [], [], []
    def after():
        if starting: starting[0] = Beside()
        order.append("after")
    os.register_at_fork(before=lambda: [one.end() for one in ending], after_in_parent=after)
    def ends_before(fork):
        ending[:] = [Beside()]
        try: return warned(fork)
        finally: ending.clear()
    def starts_after(fork):
        starting[:] = [None]
        try: return warned(fork)
        finally: starting.pop().end()
    def moment(fork):
        "Whether the warning comes before the parent's hooks."
        shown, other = warnings.showwarning, Beside()
        order.clear()
        warnings.showwarning = lambda *said: order.append("warned")
        warnings.simplefilter("always")
        try: forked(fork)
        finally:
            warnings.showwarning = shown
            warnings.resetwarnings()
            other.end()
        return list(order)
    ended, started, moments = compare(lambda: [[how(fork) for fork in forks] for how in (ends_before, starts_after, moment)])
    assert ended == [[], []] and [len(seen) for seen in moments] == [1 + warns] * 2, (ended, moments)
    """)
    assert result.returncode == 0, result.stderr


def test_a_fork_that_cannot_count_in_proc_warns_as_bare(bench: Bench) -> None:
    """With a space in the process's name CPython reads another field of /proc/self/stat; without a free
    descriptor, none. Then it counts the threads of `threading`."""
    result = bench.python(FORKS + """
    import _thread, ctypes, resource
    def named(name): ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)
    def without_descriptors():
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try: return os.fork()
        finally: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    def all_of_them():
        seen = {}
        for name in ("two words", "of three words", "one"):
            named(name)
            seen[name] = [warned(fork) for fork in forks]
        return seen, warned(without_descriptors)
    def beside_another():
        other = Beside()
        try: return all_of_them()
        finally: other.end()
    def beside_an_unknown():
        "A thread that `threading` does not know."
        begun, stop, native = _thread.allocate_lock(), _thread.allocate_lock(), []
        def run():
            native.append(threading.get_native_id())
            begun.release()
            stop.acquire()
        begun.acquire(), stop.acquire()
        _thread.start_new_thread(run, ())
        begun.acquire()
        try: return all_of_them()
        finally:
            stop.release()
            gone(native[0])
    alone, beside, unknown = compare(lambda: [all_of_them(), beside_another(), beside_an_unknown()])
    counts = lambda seen: [len(said) for each in seen[0].values() for said in each] + [len(seen[1])]
    assert counts(beside)[:2] == counts(beside)[4:6] == [warns] * 2 and counts(unknown)[4:6] == [warns] * 2, (beside, unknown)
    """)
    assert result.returncode == 0, result.stderr
