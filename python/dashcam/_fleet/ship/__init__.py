"""`dashcam ship`: rows of a host's captures go to where the fleet's tables are.

    OUT of a service -> Shipper (judging in children -> redacting) -> files of Parquet -> DEST

| module | holds |
| --- | --- |
| `state` | what was sent, in a file beside the captures |
| `redacting` | what of a row leaves the host |
| `shipping` | one pass; passes in turn, with pauses |
| `command` | the command |
"""
