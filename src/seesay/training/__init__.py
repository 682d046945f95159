"""Recipe + corpus → run: tasks, the loop and its checkpoints, composed matchers, and tables of runs."""
