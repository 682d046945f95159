"""Reports: an HTML file about runs, with tables, curves and queries."""
