"""Pure: judge observations, build series, find transitions."""
