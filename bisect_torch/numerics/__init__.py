"""Torch code for users and cases: inputs, references, comparison."""
