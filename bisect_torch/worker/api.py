"""The case API as it runs inside a target environment: declare cases, load a file of them, run one, collect its facts.

Importing this module imports the standard library only; torch is imported by the first check.
"""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import importlib.util
import inspect
import os
import random
import re
import sys
import types
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    NoReturn,
    Optional,
    TypeVar,
    Union,
)

from bisect_torch.worker import declaration, limits, recording
from bisect_torch.worker.declaration import DeclarationError, Options, Scalar, expand
from bisect_torch.worker.recording import record, thorough

if TYPE_CHECKING:
    from bisect_torch.numerics.check import CheckResult

__all__ = [
    "CaseDefinition",
    "DeclarationError",
    "NoCaseError",
    "Skip",
    "case",
    "check",
    "collected_facts",
    "describe",
    "expand",
    "load_case_file",
    "record",
    "run_case",
    "skip",
    "thorough",
]

Function = TypeVar("Function", bound=Callable[..., Any])


class Skip(BaseException):
    """The case says that it does not apply here. Not an ``Exception``, so that a case's own ``except`` lets it pass."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def skip(reason: str) -> NoReturn:
    """End the case: it does not apply here (no such device, too little memory, other hardware)."""
    raise Skip(str(reason))


class NoCaseError(DeclarationError):
    """A case file declares no case on this build: all of them stand in branches that it does not take."""


class CaseDefinition(NamedTuple):
    """One case as declared.

    Args:
        name: The function's name.
        line: Line on which its definition starts, decorators included.
        parameters: Name to the values it takes, in the order of declaration.
    """

    name: str
    line: int
    function: Callable[..., Any]
    parameters: Dict[str, List[Scalar]]
    options: Options


_declared: List[CaseDefinition] = []
_checks: List["CheckResult"] = []


def case(function: Optional[Function] = None, **keywords: Any) -> Any:
    """Declare a function as a case; bare, or with options and parameters.

    ``memory="14 GiB"`` or ``{"cpu": "14 GiB", "cuda": "20 GiB"}``, ``timeout=120`` (seconds), ``device="cuda"`` or a
    list, ``needs="torch>=2.6"``, ``"compile"`` or a list, ``issue="https://…"``. Other keywords are parameters with
    their list of values (strings, numbers, booleans, None); the case is run with every combination. The function takes
    ``device`` only if it names it.

    ``memory`` and ``timeout`` may also be functions, called for every instance, by name, with the parameters that they
    name: ``memory=lambda batch: 8 * batch``. They give what could stand there. One that names ``device`` is called
    with each of ``cpu``, ``cuda``, ``mps`` and ``xpu`` and tells what a cell needs that runs there: a plain size is
    memory of that device, a dict such as ``{"cpu": …, "cuda": …}`` names memory of both.

    Raises:
        DeclarationError: The case cannot be run as declared.
    """
    if function is None:
        return functools.partial(_declare, keywords=keywords)
    if not callable(function) or keywords:
        raise DeclarationError("@case takes keywords only: @case or @case(dtype=[…], timeout=60)")
    return _declare(function, keywords={})


def _declare(function: Function, *, keywords: Mapping[str, Any]) -> Function:
    original = inspect.unwrap(function)
    name = getattr(function, "__name__", repr(function))
    try:
        if inspect.isgeneratorfunction(original) or inspect.iscoroutinefunction(original):
            raise DeclarationError("a generator or coroutine function would never run; write a plain def that returns")
        options = declaration.parse_options(keywords)
        parameters = {key: value for key, value in keywords.items() if key not in declaration.OPTIONS}
        checked = declaration.check_parameters(parameters, _signature(original))
        limits.check_functions(options, checked)
    except DeclarationError as problem:
        raise DeclarationError(f"case {name!r}: {problem}") from None
    line = original.__code__.co_firstlineno if hasattr(original, "__code__") else 1
    _declared.append(CaseDefinition(name, line, function, checked, options))
    return function


def _signature(function: Callable[..., Any]) -> declaration.Signature:
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    arguments = inspect.signature(function).parameters.values()
    named = [argument for argument in arguments if argument.kind in by_name]
    return declaration.Signature(
        names=tuple(argument.name for argument in named),
        required=tuple(argument.name for argument in named if argument.default is inspect.Parameter.empty),
        takes_any=any(argument.kind is inspect.Parameter.VAR_KEYWORD for argument in arguments),
        positional_only=tuple(a.name for a in arguments if a.kind is inspect.Parameter.POSITIONAL_ONLY),
    )


def load_case_file(path: Union[str, "os.PathLike[str]"]) -> List[CaseDefinition]:
    """Import a case file and give its cases, in the order of their declaration.

    The file's folder joins the end of ``sys.path``, so that its neighbours can be imported but hide nothing.

    Raises:
        DeclarationError: A case cannot be run as declared, two have the same name, or there is none.
    """
    full = os.path.abspath(os.fspath(path))
    folder, base = os.path.split(full)
    if folder not in sys.path:
        sys.path.append(folder)
    name = "case_" + re.sub(r"\W", "_", os.path.splitext(base)[0])
    del _declared[:]
    module = _import_file(name, full)
    found = [_as_bound(definition, module) for definition in _declared if definition.function.__module__ == name]
    if not found:
        raise NoCaseError(f"{base} declares no case")
    names = [definition.name for definition in found]
    for definition in found:
        if names.count(definition.name) > 1:
            raise DeclarationError(f"{base} declares the case {definition.name!r} twice")
    return found


def _import_file(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise DeclarationError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _as_bound(definition: CaseDefinition, module: ModuleType) -> CaseDefinition:
    # A decorator above @case (torch.no_grad, say) replaces the function after it was declared.
    bound = getattr(module, definition.name, None)
    return definition._replace(function=bound) if callable(bound) else definition


def describe(definitions: List[CaseDefinition]) -> List[Dict[str, Any]]:
    """One JSON row per instance: what ``bisect_torch.cases.from_expansion`` reads.

    Raises:
        DeclarationError: A function in a case's options cannot tell what an instance needs.
    """
    return [_row(definition, choice) for definition in definitions for choice in expand(definition.parameters)]


def _row(definition: CaseDefinition, choice: Dict[str, Scalar]) -> Dict[str, Any]:
    options = definition.options
    try:
        needed = limits.of_instance(options, choice)
    except DeclarationError as problem:
        raise DeclarationError(f"case {definition.name!r}: {problem}") from problem.__cause__
    return {
        "case": definition.name,
        "line": definition.line,
        "parameters": choice,
        **needed,
        "devices": list(options.devices),
        "needs": list(options.needs),
        "issue": options.issue,
    }


def run_case(
    definition: CaseDefinition, parameters: Mapping[str, Scalar], device: str, seed: Optional[int]
) -> Dict[str, Any]:
    """Run one instance and give its facts (keys of ``bisect_torch.model.FACT_FIELDS``).

    What the case raises passes through; :func:`collected_facts` then tells what was recorded until there.

    Raises:
        Skip: The case does not apply here.
    """
    del _checks[:]
    recording.forget_records()
    _forget_inputs()
    if seed is not None:
        _seed_everything(seed)
    arguments: Dict[str, Any] = dict(parameters)
    signature = _signature(inspect.unwrap(definition.function))
    if "device" in signature.names:
        arguments["device"] = device
    value = definition.function(**arguments)
    return _with_value(collected_facts(seed), value)


def _seed_everything(seed: int) -> None:
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def _forget_inputs() -> None:
    inputs = sys.modules.get("bisect_torch.numerics.digest")
    if inputs is not None:
        inputs.forget_inputs()


def collected_facts(seed: Optional[int] = None) -> Dict[str, Any]:
    """What the running case has recorded so far: number of its checks, facts of the worst, digests, named facts."""
    facts: Dict[str, Any] = {"checks": len(_checks), "measurements": recording.recorded()}
    if seed is not None:
        facts["seed"] = seed
    module = sys.modules.get("bisect_torch.numerics.digest")
    if module is not None:
        facts["input_digest"] = module.recorded_inputs()
    if _checks:
        from bisect_torch.numerics.check import worst
        from bisect_torch.numerics.digest import combine

        facts.update(worst(_checks))
        for name in ("digest", "reference_digest"):
            facts[name] = combine([result.facts.get(name) for result in _checks])
    return {name: fact for name, fact in facts.items() if fact is not None}


def _with_value(facts: Dict[str, Any], value: object) -> Dict[str, Any]:
    from bisect_torch.numerics import digest
    from bisect_torch.numerics.check import CheckResult

    facts["returned_false"] = is_false(value)
    if value is None or isinstance(value, CheckResult):
        return facts
    slip = left_to_run(value) or (None if _checks else several_answers(value))  # who checks gives no answer besides
    if slip:
        facts["reason"] = slip
    own = digest.digest(value)
    facts["digest"] = digest.combine([facts.get("digest"), own]) if _checks else own
    return {name: fact for name, fact in facts.items() if fact is not None}


def is_false(value: object) -> bool:
    """Whether a case returned False: a bool, a numpy bool or a 0-d bool tensor."""
    if isinstance(value, bool):
        return not value
    kind = type(value)
    if kind.__module__ == "numpy" and kind.__name__ in ("bool_", "bool"):
        return not value
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return bool(value.dtype is torch.bool and value.dim() == 0 and not value.item())
    return False


def several_answers(value: object) -> Optional[str]:
    """Why a cell was not judged whose case returned more than one truth value, with a False among them.

    ``return output == expected`` is meant as an answer, ``return output > 0`` as a value: only the user can tell.
    """
    if not _holds_false(value) or is_false(value):
        return None
    return (
        "the case's own mistake: it returned several truth values, and not all are true: where they are the answer, "
        "write return (…).all(), or assert it; where they are a value, return them as numbers: (…).int()"
    )


def _holds_false(value: object) -> bool:
    """Whether a value is False, or a tensor or array of truth values with a False in it, or a list, tuple or dict that
    directly holds one."""
    if isinstance(value, dict):
        return any(map(_is_or_has_false, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_is_or_has_false, value))
    return _is_or_has_false(value)


def _is_or_has_false(value: Any) -> bool:
    if is_false(value):
        return True
    torch = sys.modules.get("torch")
    if torch is not None and type(value) is torch.Tensor:  # what is derived from it may be of any kind
        dense = value.layout is torch.strided and value.dtype is torch.bool and value.device.type != "meta"
        return bool(dense and not value.all().item())
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return bool(value.dtype == bool and not value.all())
    return False


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def left_to_run(value: object) -> Optional[str]:
    """Why a cell was not judged whose case returned ``check``, a generator or the like instead of what that gives.

    So is a list or tuple of nothing else: a function beside values is what ``torch.func.vjp`` gives. None for all other
    values: an object that can be called may well be what torch made.
    """
    if isinstance(value, (list, tuple)):
        slips = [left_to_run(each) for each in value]
        return slips[0] if slips and all(slips) else None
    name = getattr(value, "__name__", "") if isinstance(value, _FUNCTIONS) else ""
    if name and name != "<lambda>":
        what, mend = f"the function {name}", f"write return {name}(…)"
    elif isinstance(value, (*_FUNCTIONS, functools.partial)):
        what, mend = "a lambda" if name else "a function", "call it"
    elif isinstance(value, (collections.abc.Coroutine, collections.abc.AsyncGenerator)):
        what, mend = "a coroutine", "asyncio.run(…) runs it"
    elif isinstance(value, (collections.abc.Generator, map, filter, zip)):
        what, mend = f"a {type(value).__name__}", "make a list of it"
    else:
        return None
    return f"the case's own mistake: it returned {what}, not what that gives: {mend}"


@contextlib.contextmanager
def apart() -> Iterator[List["CheckResult"]]:
    """The checks made inside are given in the list and do not count for the cell.

    For cases that try the judge itself on values that are wrong on purpose, then check what it said.
    """
    before = list(_checks)
    found: List["CheckResult"] = []
    try:
        yield found
    finally:
        found += _checks[len(before) :]
        _checks[:] = before


_NO_REFERENCE = object()


def check(actual: Any, reference: Any = _NO_REFERENCE, **options: Any) -> "CheckResult":
    """Compare a value with its reference and record the facts; see :func:`bisect_torch.numerics.check.compare`.

    All checks of a case are recorded, whether it returns them or not; the facts of the worst are kept. The result is
    true when the value is right under the criterion in force.

    Raises:
        MisusedCheckError: There is no reference, or an option that it does not have: the cell is ``broken``.
    """
    from bisect_torch.numerics.check import OPTIONS, compare
    from bisect_torch.numerics.misuse import MisusedCheckError

    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise MisusedCheckError(f"it takes {', '.join(f'{name}=' for name in OPTIONS)}, not {unknown[0]}=")
    if reference is _NO_REFERENCE:
        raise MisusedCheckError("it compares with a reference: check(actual, reference)")
    result = compare(actual, reference, **options)
    _checks.append(result)
    return result
