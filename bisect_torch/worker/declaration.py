"""What may stand in ``@case(...)``: the rules for options and parameters, written once.

The orchestrator applies them to what it reads in a file, the worker to what the decorator receives. Pure, standard
library only.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

Scalar = Union[str, int, float, bool, None]

CAPABILITIES = ("compile", "cuda", "mps", "xpu")
"""Names that ``needs=`` knows beside requirements."""

DEVICE_TYPES = ("cpu", "cuda", "mps", "xpu")
"""Where a plain ``memory=`` holds."""

OPTIONS = ("memory", "timeout", "device", "needs", "issue")
"""Keywords of ``@case(...)`` that are not parameters."""

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS.update({"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40})
_MEMORY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_DEVICE = re.compile(r"[a-z]+")
_REQUIREMENT = re.compile(r"\s*[A-Za-z0-9][A-Za-z0-9._-]*\s*(\[[^\]]*\])?\s*([(<>=!~;].*)?")


MOST_INSTANCES = 1000000
_LARGEST_BITS = 4096  # Python refuses to write far larger ones as text


class DeclarationError(ValueError):
    """A case is declared in a way that cannot be run. The message names the case and the option or parameter."""


class Options(NamedTuple):
    """The options of a case, parsed.

    ``memory`` maps a device type to bytes; ``timeout`` is in seconds. ``functions`` has, by option, the functions that
    tell these for each instance (see :mod:`bisect_torch.worker.limits`); what they tell is then missing above.
    """

    memory: Dict[str, int]
    timeout: Optional[float]
    devices: Tuple[str, ...]
    needs: Tuple[str, ...]
    issue: Optional[str]
    functions: Dict[str, Callable[..., Any]]


class Signature(NamedTuple):
    """Which arguments a case's function takes.

    Args:
        names: All that can be passed by name.
        required: Those without a default value.
        takes_any: It has ``**kwargs``.
        positional_only: Names before ``/``.
    """

    names: Tuple[str, ...]
    required: Tuple[str, ...]
    takes_any: bool = False
    positional_only: Tuple[str, ...] = ()


def parse_bytes(value: object) -> int:
    """``"14 GiB"``, ``"500 MB"`` or a number of bytes, as bytes.

    Raises:
        DeclarationError: It is neither, or not positive.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _MEMORY.fullmatch(value) if isinstance(value, str) else None
    if match and match.group(2).lower() in _UNITS and float(match.group(1)) > 0:
        return int(float(match.group(1)) * _UNITS[match.group(2).lower()])
    raise DeclarationError(f'memory is a number of bytes or a text such as "14 GiB", not {value!r}')


def parse_options(raw: Mapping[str, Any]) -> Options:
    """The options among the keywords of ``@case(...)``.

    Raises:
        DeclarationError: An option has a value that it cannot have.
    """
    functions = {option: raw[option] for option in ("memory", "timeout") if callable(raw.get(option))}
    return Options(
        memory=parse_memory(None if "memory" in functions else raw.get("memory")),
        timeout=parse_timeout(None if "timeout" in functions else raw.get("timeout")),
        devices=_devices(raw.get("device")),
        needs=_needs(raw.get("needs")),
        issue=_issue(raw.get("issue")),
        functions=functions,
    )


def parse_memory(value: object) -> Dict[str, int]:
    """``memory=`` as device type to bytes; a plain size holds for every type of device, None declares nothing.

    Raises:
        DeclarationError: It is not a size, and not a dict of sizes.
    """
    if value is None:
        return {}
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str) or not _DEVICE.fullmatch(name):
                raise DeclarationError(f"memory is given for a device type such as 'cuda', not for {name!r}")
        return {str(name): parse_bytes(size) for name, size in value.items()}
    size = parse_bytes(value)
    return {name: size for name in DEVICE_TYPES}


def parse_timeout(value: object) -> Optional[float]:
    """``timeout=`` in seconds; None declares nothing.

    Raises:
        DeclarationError: It is not a positive number.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise DeclarationError(f"timeout is a positive number of seconds, not {value!r}")
    return float(value)


def _texts(option: str, value: object) -> Tuple[str, ...]:
    if value is None:
        return ()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple)) or not all(isinstance(item, str) for item in values):
        raise DeclarationError(f"{option} is a text or a list of texts, not {value!r}")
    return tuple(values)


def _devices(value: object) -> Tuple[str, ...]:
    devices = _texts("device", value)
    for device in devices:
        if not _DEVICE.fullmatch(device):
            raise DeclarationError(f"device is a device type such as 'cuda', without a number, not {device!r}")
    return devices


def _needs(value: object) -> Tuple[str, ...]:
    needs = _texts("needs", value)
    for need in needs:
        if need not in CAPABILITIES and not is_requirement(need):
            known = ", ".join(CAPABILITIES)
            raise DeclarationError(f'needs knows {known} and requirements such as "torch>=2.6", not {need!r}')
    return needs


def is_requirement(need: str) -> bool:
    """Whether it has the outer form of a requirement: ``torch>=2.6``."""
    match = _REQUIREMENT.fullmatch(need)
    return bool(match and (match.group(2) or "").strip())


def _issue(value: object) -> Optional[str]:
    if value is None:
        return None
    if not isinstance(value, str) or not value.startswith(("https://", "http://")):
        raise DeclarationError(f'issue is an address such as "https://…", not {value!r}')
    return value


def check_parameters(parameters: Mapping[str, Any], signature: Signature) -> Dict[str, List[Scalar]]:
    """The parameters as lists of scalars.

    Raises:
        DeclarationError: A parameter has no usable list of values, the function does not take it, or the function has
            an argument that nothing gives a value.
    """
    checked = {name: _values(name, values) for name, values in parameters.items()}
    if signature.positional_only:
        raise DeclarationError(
            f"arguments are passed by name: {signature.positional_only[0]!r} may not stand before '/'"
        )
    for name in checked:
        if name not in signature.names and not signature.takes_any:
            raise DeclarationError(f"the function does not take the parameter {name!r}")
    for name in signature.required:
        if name not in checked and name != "device":
            raise DeclarationError(f"nothing gives the argument {name!r} a value; write {name}=[…] in @case(…)")
    choices = math.prod(len(values) for values in checked.values())
    if choices > MOST_INSTANCES:
        raise DeclarationError(
            f"its parameters have {choices} choices; {MOST_INSTANCES} is the most that a case may have"
        )
    return checked


def _values(name: str, values: object) -> List[Scalar]:
    if not isinstance(values, (list, tuple, range)):
        raise DeclarationError(f"the parameter {name!r} needs a list of values, not {values!r}")
    if not values:
        raise DeclarationError(f"the parameter {name!r} has an empty list of values")
    seen = set()
    for value in values:
        if not (value is None or isinstance(value, (str, int, float, bool))):
            raise DeclarationError(
                f"the parameter {name!r} has the value {value!r}; values are strings, numbers, booleans or None"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise DeclarationError(f"the parameter {name!r} has the value {value!r}; pass it as a string")
        if isinstance(value, int) and value.bit_length() > _LARGEST_BITS:
            raise DeclarationError(f"the parameter {name!r} has a number of {value.bit_length()} bits")
        if str(value) in seen:
            raise DeclarationError(f"the parameter {name!r} has two values that read {str(value)!r}")
        seen.add(str(value))
    return list(values)


def expand(parameters: Mapping[str, Sequence[Scalar]]) -> List[Dict[str, Scalar]]:
    """Every choice of parameters, the last one changing fastest; one empty choice when there are none."""
    choices = ([(name, value) for value in values] for name, values in parameters.items())
    return [dict(choice) for choice in itertools.product(*choices)]
