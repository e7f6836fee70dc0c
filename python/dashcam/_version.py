"""The package's version, where the rest of the package can read it."""

__version__ = "0.1.0"
