"""As flask_app, on an event loop."""

from typing import Any

from work import price

from fastapi import FastAPI

app = FastAPI()


@app.get("/price/{sku}")
async def show_price(sku: str) -> Any:
    """A typical answer of a shop."""
    return price(sku)
