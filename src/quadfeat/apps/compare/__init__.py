"""Find the best model for a table: ``quadfeat compare``.

Needs ``pip install 'quadfeat[study]'``.

=========== ===================================================================
reading     read a table from a file, with ``delimited`` and ``numerals``
table       check the target, and describe the ``columns``
contest     score each model on each fold, with ``fitting`` and ``scoring``
journal     keep finished fits, so that a stopped comparison can go on
verdict     choose a model from the scores
findings    gather the results; ``conclusions`` says them in sentences
output      print the summary to a terminal
report      write the page, with ``frames``, ``plots`` and ``snippet``
=========== ===================================================================
"""
