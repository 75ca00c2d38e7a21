"""`python -m raftsched` is the raftsched command."""

from raftsched.cli.main import main

main()
