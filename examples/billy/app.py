"""Billy: a small shop. Prices depend on the customer's place, which a library looks up.

    gunicorn -c gunicorn.conf.py app:app
"""

from __future__ import annotations

import hashlib
import socket
import threading

from flask import Flask, jsonify

import geocache

app = Flask(__name__)
_stock = {f"sku-{i}": 100 + i for i in range(500)}
_local = threading.local()


def ask_stock(sku: str) -> int:
    """Asks the stock service; here a pair of sockets that answers at once."""
    if not hasattr(_local, "pair"):
        _local.pair = socket.socketpair()
    near, far = _local.pair
    near.send(sku.encode())
    far.send(far.recv(64))
    return _stock.get(near.recv(64).decode(), 0)


def sign(text: str) -> str:
    """The receipt's signature: some milliseconds of computing."""
    return hashlib.pbkdf2_hmac("sha256", text.encode(), b"billy", 12000).hex()


def price(sku: str, address: str) -> float:
    """The price at the customer's place."""
    return ask_stock(sku) * geocache.lookup(address).tax


@app.get("/checkout")
def checkout() -> object:
    """A customer pays."""
    total = sum(price(f"sku-{i}", "10.1.2.3") for i in range(3))
    return jsonify(total=total, receipt=sign(f"total {total}"))


@app.get("/price/<sku>")
def show_price(sku: str) -> object:
    """A customer reads the catalogue."""
    return jsonify(sku=sku, price=price(sku, "10.4.5.6"), tag=sign(sku))


@app.get("/health")
def health() -> object:
    """The health check."""
    return jsonify(ok=True)
