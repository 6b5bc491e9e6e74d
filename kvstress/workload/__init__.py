"""From a workload file to a plan: what will be sent, decided before anything is sent.

Pure functions of text, bytes, a seed and a sizing. Whoever calls them opens the files and sends the
requests, so that the same plan can be shown, repeated and shrunk without a server.
"""
