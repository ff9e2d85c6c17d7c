"""Which builds exist: catalogue, package index, local interpreters, ranges."""
