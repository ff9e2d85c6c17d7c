"""Runs inside a target environment: standard library and torch only, Python 3.8 and newer."""
