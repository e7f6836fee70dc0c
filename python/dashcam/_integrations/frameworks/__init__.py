"""Frameworks: the names of requests, and the requests of those that are servers too."""
