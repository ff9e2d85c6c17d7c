"""One file per format, each a pure function of results."""
