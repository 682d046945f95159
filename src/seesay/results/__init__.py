"""Results: measured rows, published rows, and tables of both."""
