"""Other people's traces, one file per format, each read row by row into the same kind of turn."""
