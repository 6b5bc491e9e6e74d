"""The run directory: two files that everything follows from, and views that can be deleted.

`manifest.json` and `events.jsonl` are the run. The tables, findings and verdict beside them
are written live for whoever watches, and come out the same, byte for byte, when they are
rebuilt.
"""
