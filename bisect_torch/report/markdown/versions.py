"""An environment in the form of ``torch.utils.collect_env``: what is known of it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bisect_torch.model import Environment, Observation
from bisect_torch.report.findings import Findings


def collected(findings: Findings, build: str, seen: Observation) -> str:
    """The lines of the form that are known, with its own words.

    Args:
        seen: An observation on that build, for its machine and device.
    """
    environment = findings.environments.get(build)
    host = next((run.get("host") for run in reversed(findings.runs) if run.get("run_id") == seen.run_id), None)
    facts = host if isinstance(host, dict) else {}
    parts = [_torch(environment, seen), _system(facts), _python(environment, seen), _cpu(facts), _packages(environment)]
    return "\n\n".join("\n".join(part) for part in map(list, parts) if part)


def _torch(environment: Environment | None, seen: Observation) -> Iterator[str]:
    version = environment.torch_version if environment else _with_local(seen)
    yield f"PyTorch version: {version}"
    commit = (environment.git_commit if environment else None) or seen.git_commit
    if commit:
        yield f"PyTorch git commit: {commit}"
    cuda = environment.cuda if environment else seen.cuda
    if environment or cuda:
        yield f"CUDA used to build PyTorch: {cuda or 'None'}"


def _with_local(seen: Observation) -> str:
    return f"{seen.build}+{seen.local_version}" if seen.local_version else seen.build


def _system(facts: Mapping[str, object]) -> Iterator[str]:
    if facts.get("system"):
        release = f" {facts['system_release']}" if facts.get("system_release") else ""
        architecture = f" ({facts['architecture']})" if facts.get("architecture") else ""
        yield f"OS: {facts['system']}{release}{architecture}"
    libc = str(facts.get("libc") or "").strip()
    if libc:
        yield f"Libc version: {libc.replace(' ', '-')}"


def _python(environment: Environment | None, seen: Observation) -> Iterator[str]:
    python = environment.python_version if environment else seen.python
    if python:
        yield f"Python version: {python}"
    if seen.device.partition(":")[0] != "cpu":
        if seen.device_name:
            yield f"GPU models and configuration: {seen.device_name}"
        if seen.driver:
            yield f"Driver version: {seen.driver}"


def _cpu(facts: Mapping[str, object]) -> Iterator[str]:
    known = {
        "Architecture": facts.get("architecture"),
        "CPU(s)": facts.get("cores"),
        "Model name": facts.get("cpu"),
        "Machine class": facts.get("machine_class"),
    }
    lines = [f"{name}: {value}" for name, value in known.items() if value]
    if lines:
        yield "CPU:"
        yield from lines


def _packages(environment: Environment | None) -> Iterator[str]:
    if environment is not None and environment.packages:
        yield "Versions of relevant libraries:"
        for name in sorted(environment.packages):
            yield f"[pip3] {name}=={environment.packages[name]}"
