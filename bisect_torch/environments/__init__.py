"""Lock, install, check, stamp, reuse and remove environments. The only room that calls uv."""
