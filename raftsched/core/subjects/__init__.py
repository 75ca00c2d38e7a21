"""Defines the rows of one subject each, with the commands that change them."""
