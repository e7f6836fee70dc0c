"""One endpoint as they come: a query, a template's worth of text, JSON. Some 300 us."""

from work import price

from flask import Flask

app = Flask(__name__)


@app.get("/price/<sku>")
def show_price(sku: str) -> dict[str, object]:
    """What a shop would answer."""
    return price(sku)
