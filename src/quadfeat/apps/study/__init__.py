"""The paper's experiments, rerun by one command: ``quadfeat study``.

Needs ``pip install 'quadfeat[study]'``. A study is a list of cells, each a pure function of its
configuration that returns tidy rows; plots and the report read nothing but these rows.
"""
