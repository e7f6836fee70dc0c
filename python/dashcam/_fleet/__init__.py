"""The captures of many hosts: which causes cost the most, since when, on which versions.

`dashcam.fleet` and `dashcam fleet` load this package; nothing in a host does. Its libraries
(ibis-framework[duckdb], pyarrow, numpy) are the extra `dashcam[fleet]`.

    captures -> judging (in children) -> store (Parquet) -> engine + questions -> answers -> wording

| room | holds |
| --- | --- |
| `rows` | the columns, each declared once; a capture -> rows, in processes with limits |
| `tables` | Parquet files, written once; what is new in a folder; DuckDB |
| `ask` | the questions as Ibis expressions; intervals and tests over hosts; answers as data and text |
| `fleet`, `command` | the API, the command |

What is missing on purpose: rollups (counts of all requests by name and hour), which the recorder
does not write yet. So every share is of the captured slow requests, and nothing is a rate of all
requests. Also Spark, object stores, shipping and compaction.
"""
