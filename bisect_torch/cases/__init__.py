"""Find, read, expand and hash case files without importing torch."""
