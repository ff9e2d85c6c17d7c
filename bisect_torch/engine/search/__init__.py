"""A search over builds. ``request`` is what is asked for and what is found, ``bisection`` the loop; which build comes
next is decided by ``analysis``.

``probing`` runs some builds for it and remembers all, ``weighing`` asks flaky cells again and again, ``ahead`` makes
environments that may be next, ``standing`` makes room for them on a short disk, ``pace`` reckons how long the rest
takes.
"""
