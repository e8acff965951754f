"""Parts that all commands share. None of them depends on a command.

========== =========================================================
colors     colors for light and dark pages, and their contrast
drawing    figures: style, axes, legends, file formats
inline     figures as elements of a page
page       HTML pages from ``templates``, with all values escaped
terminal   tables and progress bars
files      write files completely, or rescue their content
processes  worker processes
machine    the versions and the hardware that produced a result
errors     errors that a command prints as one line
text       strings that any terminal can print
========== =========================================================
"""
