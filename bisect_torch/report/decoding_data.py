"""The table about greedy decoding as data, for ``--json``."""

from __future__ import annotations

from typing import Any

from bisect_torch.analysis.decoding import Change, Measures, Upgrade
from bisect_torch.analysis.decoding_sweep import Configuration
from bisect_torch.report.decoding import Decoding, Precision, decoding_sentences


def decoding_data(found: Decoding | None) -> dict[str, Any] | None:
    """A document that ``json.dumps`` takes; null where nothing was decoded.

    Tokens are positions counted from 0. Keys:
        builds, releases: In order; the releases are the builds that an upgrade leads through.
        precisions: By dtype: ``configurations`` (number); ``upgrade`` (a change, with ``upgrades``: ``build``,
            ``after``, ``not_run_between`` (known releases that did not take part), ``token``, ``configurations``);
            ``axes``: ``batch``, ``threads``, ``padding``, ``processes`` to a change; ``another_process``: a change;
            ``over_configurations``: build to measures; ``over_releases``: a list of measures, each with its
            ``configuration``. A change has ``compared``, ``changed``, ``open`` (comparisons that lack a cell),
            ``token``, ``median`` (of the first tokens that differ) and ``example``, the comparison that differs
            earliest (``tokens``: of each question that differs, the first that does; ``build``; ``configurations``).
            Measures have ``cells``, ``missing``, ``std_accuracy`` (of a share), ``avg_std_output_length`` (tokens),
            ``div_index`` (per question, null where all are the same) and ``avg_std_top1_probability``.
        findings: The sentences.
        missing: ``configuration``, ``build`` and ``reason`` of cells without an output.
        silent: Instance to the reason for which it gave no output on any build.
    """
    if found is None:
        return None
    return {
        "builds": list(found.sweep.builds),
        "releases": list(found.releases),
        "precisions": {each.dtype: _precision(each, found) for each in found.precisions},
        "findings": decoding_sentences(found),
        "missing": [
            {"configuration": configuration._asdict(), "build": build, "reason": reason}
            for (configuration, build), reason in found.sweep.missing.items()
        ],
        "silent": dict(found.sweep.silent),
    }


def _precision(of: Precision, found: Decoding) -> dict[str, Any]:
    configurations = found.sweep.of(of.dtype)
    return {
        "configurations": len(configurations),
        "upgrade": {**_change(of.upgrade.change), "upgrades": [_upgrade(each, found) for each in of.upgrade.upgrades]},
        "axes": {axis: _change(change) for axis, change in of.axes.items()},
        "another_process": _change(of.again),
        "over_configurations": {build: _measures(each) for build, each in of.by_build.items()},
        "over_releases": [
            {"configuration": configuration._asdict(), **_measures(each)}
            for configuration, each in zip(configurations, of.by_configuration, strict=True)
        ],
    }


def _change(change: Change) -> dict[str, Any]:
    first = change.first
    return {
        "compared": change.compared,
        "changed": change.changed,
        "open": change.open,
        "token": change.token,
        "median": change.median,
        "example": first and {**first._asdict(), "configurations": _plain(first.configurations)},
    }


def _upgrade(upgrade: Upgrade, found: Decoding) -> dict[str, Any]:
    return {
        "build": upgrade.build,
        "after": upgrade.after,
        "not_run_between": list(found.left_out.get((upgrade.after, upgrade.build), ())),
        "token": upgrade.token,
        "configurations": [_plain(each.configurations)[0] for each in upgrade.differences],
    }


def _plain(configurations: tuple[Configuration, ...]) -> list[dict[str, Any]]:
    return [each._asdict() for each in configurations]


def _measures(of: Measures) -> dict[str, Any]:
    return {**vars(of), "div_index": list(of.div_index)}
