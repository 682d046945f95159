"""`python -m seesay`."""

from seesay.cli import main

main()
