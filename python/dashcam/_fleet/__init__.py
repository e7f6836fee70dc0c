"""The captures of many hosts: which causes cost the most, since when, on which versions.

`dashcam.fleet`, `dashcam fleet` and `dashcam ship` load this package; nothing in a host does. Its
libraries are extras: `dashcam[fleet]` (DuckDB, Ibis, pyarrow), `dashcam[spark]` (PySpark, too),
`dashcam[ship]` (pyarrow alone).

    captures -> judging (in children) -> store (Parquet) -> engine + questions -> answers -> wording
                                         ship: the same on each host, and from there to one place

| room | holds |
| --- | --- |
| `rows` | the columns, each declared once; a capture -> rows, in processes with limits |
| `tables` | Parquet files, written once, in a folder or an object store; what is new in a folder; DuckDB and Spark |
| `ship` | what is new on a host goes to the fleet's tables |
| `ask` | the questions as Ibis expressions; intervals and tests over hosts; answers as data and text |
| `fleet`, `raw`, `command` | the API, tables of captures themselves, the command |

What is missing on purpose: anything distributed. Spark is whoever has it; DuckDB needs nothing.
"""
