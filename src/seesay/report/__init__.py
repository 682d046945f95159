"""One HTML file of what runs can do: tables, curves, and the queries behind them."""
