"""Nothing private leaves: names, folders and secrets are replaced where something enters results or a report."""

from bisect_torch.redaction.machine import private_of, this_machine
from bisect_torch.redaction.names import (
    holds_credentials,
    is_secret_name,
    secret_values,
    variables_for_uv,
    without_secrets,
)
from bisect_torch.redaction.own_process import conceal
from bisect_torch.redaction.patterns import STORE
from bisect_torch.redaction.private import JSON_FIELDS, TEXT_FIELDS, Private
from bisect_torch.redaction.shapes import HIDDEN, without_tokens
from bisect_torch.redaction.tool_values import inside

__all__ = [
    "HIDDEN",
    "JSON_FIELDS",
    "STORE",
    "TEXT_FIELDS",
    "Private",
    "conceal",
    "holds_credentials",
    "inside",
    "is_secret_name",
    "private_of",
    "secret_values",
    "this_machine",
    "variables_for_uv",
    "without_secrets",
    "without_tokens",
]
