"""Starting a server, watching it and ending it so that nothing is left: the one stage that knows processes."""
