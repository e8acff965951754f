"""Shared parts of the commands, none of which knows a command.

========== =========================================================
drawing    figures: style, axes, legends, file formats
page       HTML pages from ``templates``, with everything escaped
terminal   tables and progress bars
files      files written as a whole, or rescued
processes  worker processes
machine    versions and hardware that a result depends on
errors     errors that a command prints on one line
text       strings that any terminal can print
========== =========================================================
"""
