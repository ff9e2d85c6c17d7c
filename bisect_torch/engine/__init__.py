"""Plan what must run, schedule it, run it."""
