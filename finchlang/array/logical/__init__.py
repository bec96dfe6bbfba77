"""The logical planner: expressions to equal expressions that take fewer steps. A sum of products is seen
by laws that operators declare (`form.py`), what its factors store is estimated (`stats.py`), it is divided
into loop nests by search (`divide.py`), and these become nodes again (`rebuild.py`) for the planner of
loops."""
