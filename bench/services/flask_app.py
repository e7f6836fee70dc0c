"""One typical endpoint: a query, a template's worth of text, JSON. About 300 us."""

from work import price

from flask import Flask

app = Flask(__name__)


@app.get("/price/<sku>")
def show_price(sku: str) -> dict[str, object]:
    """A typical answer of a shop."""
    return price(sku)
