"""Reports: one HTML file about some runs, with tables, curves and queries."""
