"""Tests of the reporter: `python3 -m unittest discover -s studies -t studies` from the repository's root."""
