"""What a run showed, for people and for CI: a page, a summary, JUnit XML and a terminal.

All of it is a view of a manifest, a judgement and events; nothing here judges.
"""
