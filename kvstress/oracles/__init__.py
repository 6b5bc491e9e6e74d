"""Oracles: one question per file, each a fold over the event stream.

An oracle only reads. It sees every event once, in order, keeps bounded memory and yields
findings, so the same code stops a live run at its first failure and re-judges a stored one.
"""
