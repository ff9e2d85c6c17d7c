"""Runs inside a target environment: standard library and torch only, Python 3.8 and newer. Its files:

* The worker: ``server`` takes requests in the messages of ``protocol``; ``preload`` is what it loads once.
* Outside a cell: ``launch`` starts it, ``supervise`` watches it with a ``clock`` of its own, ``output`` takes what it
  writes, ``stacks`` are taken before a kill, ``shared_memory`` and ``shared_files`` sweep; ``conclude`` makes facts of
  its ``ending``. ``session`` watches many tests at once.
* Inside a cell: ``cell`` runs a case, a ``script`` (with its ``own_tests``) or a ``suite`` (with ``pytest_plugin``);
  ``outcome`` makes facts of exceptions, by their ``origin``; ``ignored`` notes those that Python passes over,
  ``beside`` which files it reads, ``missing_file`` which it wants and does not find; ``bytecode`` says where Python may
  write.
* For case files: ``api``, with the rules of ``declaration``, the ``limits`` of instances, ``recording`` and
  ``guarding``.
* ``control`` holds the control cases of an environment, ``system`` asks the operating system.
"""
