"""Plan what must run, schedule it, run it. Its files, from what is asked for to the worker that runs a cell:

* A run: ``request`` is asked for, ``run`` is the loop, ``telling`` speaks to the observer in the words of ``events``,
  ``record`` is what stays behind, ``other_state`` says why nothing can be taken over.
* Its rows: ``rows``, of which ``suites`` are collected by pytest; ``shard`` is a part of them.
* Its cells: ``ledger`` holds what has been seen, with what a test's text says of it (``noted``); ``known`` says what of
  earlier runs still counts, for which ``beside`` looks at the files that were read and ``variables`` at the process's
  own; ``plan`` makes tasks, ``under_way`` counts those without an answer, ``second_look`` confirms and distrusts.
* Its environments: ``making`` makes them in groups that ``rotation`` chooses, ``resweep`` finds those that changed.
* Where it takes place: ``site``, which is this machine, or the cluster of ``ray``; ``host`` is what a machine has.
* Cells on one machine: ``executor`` has the slots, for which ``waiting`` queues and ``memory_budget`` admits; they tell
  ``slot_messages``. ``conditions`` are the same for all cells, ``unchanged`` looks at their files. ``worker_process``
  is asked for a ``cell_request``, ``sessions`` asks it for many tests at once.
* A search: ``search``.
* On results that are there: ``earlier`` reads them; ``recheck``, ``attributing`` and ``verifying`` run parts again.
* On every save: ``watch``.
"""
