"""The command line: one file per command, each parses, calls the harness, prints and exits."""
