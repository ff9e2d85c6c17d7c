"""Which builds exist: the committed catalogue and locks, package indexes, find-links folders, local interpreters."""
