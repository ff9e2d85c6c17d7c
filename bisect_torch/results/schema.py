"""The columns of a results file, version 2: one row per cell and repeat.

Columns are added at the end of their block in a later version; none is renamed or given another meaning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from bisect_torch.model import Observation

SCHEMA_VERSION = 2
"""Version 2 added ``measurements``. Files of every earlier version are read; what they lack has its default."""

SAME_FACTS_SINCE = 1
"""The oldest version whose observation of a cell says all that one of today would, so that it need not run again.

What version 2 added is empty for every cell that a tool of version 1 could run.
"""
DERIVED = ("verdict", "signature", "detail", "api_absent", "wrong_fraction")
"""Columns that are computed from the others when a file is written, and never read back."""


@dataclass(frozen=True)
class Column:
    """One column.

    Args:
        name: As in the file; unless it is one of :data:`DERIVED`, a field of :class:`~bisect_torch.model.Observation`.
        type: Arrow type by name.
        unit: ``s``, ``bytes``, ``JSON``, … ; empty where there is none.
        meaning: One line.
    """

    name: str
    type: str
    unit: str
    meaning: str


_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "double": pa.float64(),
}

_TABLE = """
build|string||version of torch as pip shows it, without the local part
build_name|string||how the build was asked for: the version, or the path of an interpreter
build_kind|string||release, nightly, candidate (of a release) or local
local_version|string||local part of torch's version: cpu, cu128
git_commit|string||commit that torch was built from
lock_hash|string|SHA-256|hash of the environment's lock; its text is in the file's metadata
python|string||version of Python that ran the cell
backend|string||pypi (what pip install torch gives), cpu, cu128, …, local
cuda|string||CUDA version that torch was built with
case_file|string||file of the case
case_file_hash|string|SHA-256|hash of its bytes; of a command, of its words
case|string||function; for a script, the file's stem
instance|string||case with its parameters: bmm[dtype=bfloat16,batch=2]
parameters|string|JSON|object of parameter name to value
device|string||cpu, cuda, …
device_name|string||name of the device as torch gives it
driver|string||version of the device's driver
repeat|int32||number of the repeat, from 0; every repeat has a worker process of its own
verdict|string||derived: ok, wrong, error, crash, timeout, oom; not judged: skip, uninstallable, broken, infra
signature|string||derived: verdict with the root exception type or signal: error:RuntimeError, crash:SIGFPE
detail|string||derived: message and frame, without numbers, addresses, paths and shapes
api_absent|bool||derived: the build does not have the feature
outcome|string||what happened: returned, raised, exited, signalled, timed_out, out_of_memory, skipped, not_installed, \
environment_broken, lost
phase|string||where it was when it failed: load, run, exit
reason|string||why it was skipped, broken, lost or could not be installed
exit_code|int32||exit status
signal|string||signal that ended it: SIGSEGV
error_type|string||type of the exception as raised
message|string||its message
root_type|string||type of the innermost cause of a wrapped exception
root_message|string||message of the innermost cause
frame|string||innermost Python frame, module:function
frame_origin|string||whose frame that is: case, local, torch, numpy, unittest, pytest, stdlib, other
missing_module|string||X of a "No module named X", at any depth of the chain of causes
absent_name|string||name or keyword that torch does not have
capabilities|string|JSON|list of capabilities that the failing traceback passes through
failed_capability|string||the one of them whose control failed in this environment
traceback|string||Python traceback
stack|string||stacks of all threads, taken before a timeout's kill
returned_false|bool||the case returned False
checks|int32||how often check() ran; what follows is from the worst
criterion|string||exact, normwise or elementwise
check_path|string||where in a nested value the worst leaf stands
mismatch|string||shape, dtype or structure differs: how
dtype|string||of the compared leaf
reduction_length|int64||K of the normwise criterion
tolerance|double||bound on rel_error under the normwise criterion
rtol|double||relative tolerance of the elementwise criterion
atol|double||absolute tolerance of the elementwise criterion
rel_error|double||max abs(actual - reference) / max abs(reference)
max_abs_error|double||max abs(actual - reference)
reference_max_abs|double||max abs(reference)
elements|int64||elements compared
wrong_elements|int64||elements beyond the criterion
wrong_fraction|double||derived: wrong_elements / elements
first_wrong_index|string|JSON|list of int: the first wrong element
actual_value|string||actual value there
expected_value|string||expected value there
nan_mismatches|int64||elements that are NaN on one side only
inf_mismatches|int64||elements that are infinite on one side only or of the other sign
error_bins|string|JSON|list of [binary exponent of abs(reference), count, largest abs(error)]
explained_by|string||fault model that reproduces the wrong value exactly
digest|string||digest of the value
reference_digest|string||digest of the reference
input_digest|string||digest of the inputs
measurements|string|JSON|object of named facts that the case recorded with record()
warnings|string|JSON|list of "Category: message", and of exceptions that Python ignores: "ignored in a thread: …"
elapsed_s|double|s|time of the case itself
timeout_s|double|s|time that it was given
peak_rss_bytes|int64|bytes|largest resident memory, without the worker's own
peak_device_bytes|int64|bytes|largest memory on the device
stdout_tail|string||end of what it wrote to stdout
stderr_tail|string||end of what it wrote to stderr
output_bytes|int64|bytes|all that it wrote
seed|int64||seed of the random state
threads|int32||threads that torch was given
isolation|string||fork (of a worker with torch), process (an interpreter of its own) or session (one for a whole suite)
worker|string||worker process that ran it
machine|string||machine class: system, architecture, vector instructions
started_at|string|ISO 8601|when it started, UTC
local_modules|string|JSON|object of relative path to SHA-256 of what it imported or (with the time of its last change) \
read beside it, or a command's words name
issue|string||address of the public issue
protocol|int32||version of the worker's protocol
key|string|SHA-256|what makes a cell the same cell; with it, a later run finds the observation again
run_id|string||run that made the observation; its manifest is in the file's metadata
"""

COLUMNS: tuple[Column, ...] = tuple(
    Column(*line.split("|", 3)) for line in _TABLE.strip().splitlines()
)  # the order of the columns in the file

STORED: tuple[str, ...] = tuple(column.name for column in COLUMNS if column.name not in DERIVED)

_FIELDS = tuple(dataclasses.fields(Observation))
FIELDS: tuple[str, ...] = tuple(field.name for field in _FIELDS)
"""The order in which a journal of this version holds the values of an observation. It is part of the version."""

REQUIRED = frozenset(field.name for field in _FIELDS if field.default is dataclasses.MISSING)
DEFAULTS: Mapping[str, object] = {f.name: f.default for f in _FIELDS if f.default is not dataclasses.MISSING}


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a column."""
    return _ARROW[name]


_ARROW = {column.name: _TYPES[column.type] for column in COLUMNS}


SELDOM_ALIKE = frozenset({"key", "started_at", "elapsed_s", "peak_rss_bytes"})
"""Columns in which few rows are alike: a dictionary of their values would be as long as they are."""


def held_type(name: str) -> pa.DataType:
    """The Arrow type of a column in memory: texts that many rows share are numbers into a dictionary."""
    kind = _ARROW[name]
    return pa.dictionary(pa.int32(), kind) if kind == pa.string() and name not in SELDOM_ALIKE else kind


def arrow_schema() -> pa.Schema:
    """The schema of a file, without metadata."""
    return pa.schema([pa.field(column.name, _ARROW[column.name]) for column in COLUMNS])


def schema_table() -> str:
    """The columns as a Markdown table, for the README."""
    lines = ["| column | type | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| `{c.name}` | {c.type} | {c.unit} | {c.meaning} |" for c in COLUMNS]
    return "\n".join(lines) + "\n"
