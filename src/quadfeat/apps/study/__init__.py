"""Rerun the paper's experiments with one command: ``quadfeat study``.

Needs ``pip install 'quadfeat[study]'``.

=========== =============================================================
plan        the cells of a study: one measurement each
experiments how a cell becomes tidy rows; depends on nothing else
methods     the methods that are compared
data        the datasets; ``fetch`` downloads them
runner      run cells, save finished ones, continue an earlier run
summary     means, intervals, and agreement with the published errors
findings    the main results in words and numbers
plots       figures
report      the HTML page; ``digest`` is a short version in Markdown
cli         the commands
=========== =============================================================
"""
