"""Servers: which calls of theirs are requests."""
