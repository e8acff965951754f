"""The paper's experiments, rerun by one command: ``quadfeat study``.

Needs ``pip install 'quadfeat[study]'``. A study is a list of cells (``plan``), each a pure function
of its configuration that returns tidy rows (``experiments``, with ``methods`` on ``data``).
``runner`` runs them and saves what is finished. ``summary``, ``plots``, ``digest`` and ``report``
read nothing but these rows.
"""
