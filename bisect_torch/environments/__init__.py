"""Environments: one build each, locked, installed, checked and stamped. The room that runs uv.

What is behind its door is loaded when it is asked for first: a run that finds every cell known makes no environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_torch.doors import opened

if TYPE_CHECKING:
    from bisect_torch.environments.backends import resolve_backend
    from bisect_torch.environments.control import capability
    from bisect_torch.environments.disk import DiskBudget
    from bisect_torch.environments.failures import EnvironmentBroken, InUse, NotInstallable, outcome_of
    from bisect_torch.environments.install import ensure, list_environments, probe_interpreter, remove
    from bisect_torch.environments.offline import is_offline
    from bisect_torch.environments.options import EnvironmentOptions
    from bisect_torch.environments.plan import completed, parts_of, plan_environments
    from bisect_torch.environments.planned import EnvironmentPlan, PlannedEnvironment
    from bisect_torch.environments.projects import Project, project_at
    from bisect_torch.environments.pruning import aged, clean_cache, files_of, to_fit, to_prune
    from bisect_torch.environments.requirements import bound_to, extra_requirement
    from bisect_torch.environments.sealing import Seal, changed_since, seal, whole
    from bisect_torch.environments.short_disk import remove_passing
    from bisect_torch.environments.staged import numerics_digest, staged_name, staged_package
    from bisect_torch.environments.store import Store
    from bisect_torch.environments.telling_apart import Alike, beside_torch, fits, in_release_order
    from bisect_torch.environments.uses import Uses, is_passing, last_used
    from bisect_torch.environments.uv_said import redact
    from bisect_torch.environments.variables import clean_environment_variables, reaches_computing
    from bisect_torch.environments.wanted import is_installed
else:
    __getattr__ = opened(
        __name__,
        backends="resolve_backend",
        control="capability",
        disk="DiskBudget",
        failures="EnvironmentBroken InUse NotInstallable outcome_of",
        install="ensure list_environments probe_interpreter remove",
        offline="is_offline",
        options="EnvironmentOptions",
        plan="completed parts_of plan_environments",
        planned="EnvironmentPlan PlannedEnvironment",
        projects="Project project_at",
        pruning="aged clean_cache files_of to_fit to_prune",
        requirements="bound_to extra_requirement",
        sealing="Seal changed_since seal whole",
        short_disk="remove_passing",
        staged="numerics_digest staged_name staged_package",
        store="Store",
        telling_apart="Alike beside_torch fits in_release_order",
        uses="Uses is_passing last_used",
        uv_said="redact",
        variables="clean_environment_variables reaches_computing",
        wanted="is_installed",
    )

__all__ = [
    "Alike",
    "DiskBudget",
    "EnvironmentBroken",
    "EnvironmentOptions",
    "EnvironmentPlan",
    "InUse",
    "NotInstallable",
    "PlannedEnvironment",
    "Project",
    "Seal",
    "Store",
    "Uses",
    "aged",
    "beside_torch",
    "bound_to",
    "capability",
    "changed_since",
    "clean_cache",
    "clean_environment_variables",
    "completed",
    "ensure",
    "extra_requirement",
    "files_of",
    "fits",
    "in_release_order",
    "is_installed",
    "is_offline",
    "is_passing",
    "last_used",
    "list_environments",
    "numerics_digest",
    "outcome_of",
    "parts_of",
    "plan_environments",
    "probe_interpreter",
    "project_at",
    "reaches_computing",
    "redact",
    "remove",
    "remove_passing",
    "resolve_backend",
    "seal",
    "staged_name",
    "staged_package",
    "to_fit",
    "to_prune",
    "whole",
]
