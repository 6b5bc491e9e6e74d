"""The driver executes a plan: it decides when a request leaves, and never what an answer means."""
