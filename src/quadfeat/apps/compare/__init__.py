"""Which model suits a table: ``quadfeat compare``.

Needs ``pip install 'quadfeat[study]'``. A table is read and sorted out (``reading``, ``columns``,
``table``); contestants are scored in cells, each a pure function of its configuration
(``contest``, with ``machines``, ``boosting``, ``scoring`` and ``measuring``); all that comes after
reads nothing but rows (``verdict``, ``findings``, ``snippet``, ``report``).
"""
