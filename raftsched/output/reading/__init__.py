"""Reads output: as text, from a copy, or as the lines that hold a word."""
