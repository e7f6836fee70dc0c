"""A request has the name of its route, whichever objects its method and route are."""

from __future__ import annotations

from conftest import Bench

CODE = """
    import dashcam
    from dashcam import _native as native
    names = []
    def when(name, seconds, error): names.append(name)
    assert dashcam.start(slow="9s", when=when)

    def served(method, route):
        request = native.request_begin("GET /raw")
        native.request_named(request, method, route)
        native.request_end(request)

    # A str of its own each time, of many sizes: the next one often has the address of the last.
    for pad in range(16):
        for at in range(40):
            route = f"/made/{'x' * pad}{at}"
            served("GET", route)
            assert names == [f"GET {route}"], (names, route)
            names.clear()
            del route

    KEPT = "/kept/{id}"
    for _ in range(3):
        served("".join(["P", "OST"]), KEPT)
        served("GET", KEPT)
        served("A-LONG-METHOD", KEPT)
    assert names == ["POST /kept/{id}", "GET /kept/{id}", "A-LONG-METHOD /kept/{id}"] * 3, names

    class Text(str):
        def __hash__(self): raise AssertionError("code of the program")
        __eq__ = __str__ = __hash__
    for at in range(3):
        served(Text("PUT"), Text("/sub"))
    assert names[-3:] == ["PUT /sub"] * 3, names[-3:]

    # Another recorder has other numbers for names.
    dashcam.stop()
    assert dashcam.start(slow="9s", when=when)
    for name in ("/first", "/second", KEPT):
        served("GET", name)
    assert names[-3:] == ["GET /first", "GET /second", "GET /kept/{id}"], names[-3:]
"""


def test_each_request_has_the_name_of_its_own_route(bench: Bench) -> None:
    result = bench.python(CODE)
    assert result.returncode == 0, result.stderr
