"""The vocabulary: frozen records and pure functions that every stage shares.

Stages never import one another, so whatever two of them must agree on is a word of this
package. Nothing here does IO, reads a clock or needs more than the standard library.
"""
