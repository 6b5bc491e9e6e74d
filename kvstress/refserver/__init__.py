"""A small inference server that fails for the reason a real one did.

It keeps an FP8 key/value cache in pages, lends the same bytes to saved recurrent states, and computes
attention over whole pages. Nothing in here counts towards a failure or rolls a die for one: when a
request fails, it is because of the bytes that lie in its last page. It imports nothing from the rest of
kvstress and meets it on the wire only.
"""
