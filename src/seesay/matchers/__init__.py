"""Arrays to scores: one file a paper, and the runs that hold trained ones."""
