"""Reads crontabs into jobs by pure functions on text, for the command line and the API. `line` has the pieces of one
line, `user_column` decides if a user stands before each command, `reading` puts a file together."""
