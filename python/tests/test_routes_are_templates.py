"""Names of routes that frameworks keep as regular expressions."""

from __future__ import annotations

import pytest

from dashcam._integrations.frameworks import tornado


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (r"/price/([^/]+)$", "/price/{path}"),
        (r"^/price/(?P<sku>[^/]+)/(\d+)$", "/price/{sku}/{path}"),
        (r"/files/((?:a|b)[(]x)\.json$", "/files/{path}.json"),
        (r"/api/contents(?P<path>(?:(?:/[^/]+)+|/?))$", "/api/contents{path}"),
        (r"/notebooks%s$", "/notebooks%s"),
        (r"/plain$", "/plain"),
        (r"/costs\$", r"/costs$"),
        # More than text and groups: unchanged.
        (r"/a?b$", "/a?b"),
        (r"/(x)?$", "/(x)?"),
        (r"/[ab]/(c)$", "/[ab]/(c)"),
        (r"/.*", "/.*"),
        (r"/(unclosed$", "/(unclosed"),
        ("", ""),
    ],
)
def test_a_pattern_is_shown_as_a_path(pattern: str, name: str) -> None:
    assert tornado.template(pattern) == name
