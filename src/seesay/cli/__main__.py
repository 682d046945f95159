"""`python -m seesay.cli`."""

from seesay.cli import main

main()
