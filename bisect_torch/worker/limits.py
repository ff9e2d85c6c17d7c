"""What an instance needs: its memory and time, where a function of the parameters tells them."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Mapping, Optional

from bisect_torch.worker import declaration
from bisect_torch.worker.declaration import DEVICE_TYPES, DeclarationError, Options, Scalar


def check_functions(options: Options, parameters: Mapping[str, Any]) -> None:
    """Refuse functions that cannot be called with the parameters of the case.

    Raises:
        DeclarationError: It takes something that is no parameter. The message names the option.
    """
    for option, function in options.functions.items():
        for argument in _arguments(option, function):
            if argument.kind is inspect.Parameter.POSITIONAL_ONLY:
                raise DeclarationError(f"{option}=: its function takes {argument.name!r} by position, not by name")
            known = argument.name in parameters or argument.name == "device"
            if _by_name(argument) and argument.default is inspect.Parameter.empty and not known:
                raise DeclarationError(f"{option}=: its function takes {argument.name!r}, which is no parameter")


def of_instance(options: Options, choice: Mapping[str, Scalar]) -> Dict[str, Any]:
    """The limits of one instance, as ``bisect_torch.cases.from_expansion`` reads them.

    A function is called by name with the parameters that it names, and gives what could stand in its place. One that
    names ``device`` is called for each of :data:`~bisect_torch.worker.declaration.DEVICE_TYPES` and tells what a cell
    needs that runs there; a plain size is then memory of that device.

    Returns:
        ``memory`` (device type to bytes) and ``timeout_s`` (None for the run's); where a function names ``device``,
        also ``by_device``: device type to these two.

    Raises:
        DeclarationError: A function raised, or gave something that cannot stand there. The message names the option.
    """
    general = _limits(options, choice, None)
    if any(_names_device(option, function) for option, function in options.functions.items()):
        general["by_device"] = {device: _limits(options, choice, device) for device in DEVICE_TYPES}
    return general


def _limits(options: Options, choice: Mapping[str, Scalar], device: Optional[str]) -> Dict[str, Any]:
    limits: Dict[str, Any] = {"memory": options.memory, "timeout_s": options.timeout}
    for option, function in options.functions.items():
        names_device = _names_device(option, function)
        if names_device and device is None:
            continue  # on a device type that nobody knows it tells nothing
        value = _called(option, function, choice, device if names_device else None)
        try:
            if option == "timeout":
                limits["timeout_s"] = declaration.parse_timeout(value)
            else:
                plain = names_device and value is not None and not isinstance(value, dict)
                limits["memory"] = declaration.parse_memory({device: value} if plain else value)
        except DeclarationError as problem:
            raise DeclarationError(f"{option}=: for {_shown(choice)}: {problem}") from None
    return limits


def _called(option: str, function: Callable[..., Any], choice: Mapping[str, Scalar], device: Optional[str]) -> Any:
    arguments = _arguments(option, function)
    takes_any = any(argument.kind is inspect.Parameter.VAR_KEYWORD for argument in arguments)
    names = {argument.name for argument in arguments if _by_name(argument)}
    given: Dict[str, Any] = {name: value for name, value in choice.items() if takes_any or name in names}
    if device is not None:
        given["device"] = device
    try:
        return function(**given)  # the author's own code, whose exception would not name case and option
    except Exception as problem:
        what = f"{type(problem).__name__}: {problem}"
        raise DeclarationError(f"{option}=: its function raised for {_shown(given)}: {what}") from problem


def _arguments(option: str, function: Callable[..., Any]) -> "list[inspect.Parameter]":
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise DeclarationError(f"{option}=: the arguments of {function!r} cannot be known; use a lambda") from None


def _by_name(argument: inspect.Parameter) -> bool:
    return argument.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _names_device(option: str, function: Callable[..., Any]) -> bool:
    return any(_by_name(argument) and argument.name == "device" for argument in _arguments(option, function))


def _shown(choice: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in choice.items()) or "the only instance"
