"""Commands for a terminal: everything behind ``quadfeat``, which ``cli`` puts together.

``study`` reruns the paper's experiments, ``compare`` finds a kernel and a rule for a table, and
``reporting`` holds what both share. Only ``quadfeat.__main__`` imports from here.
"""
