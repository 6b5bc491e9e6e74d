"""Search strategies as pure decisions: what has been seen goes in, what to probe next comes out."""
