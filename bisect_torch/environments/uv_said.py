"""What uv says when a command fails, and which error that means."""

from __future__ import annotations

import re

from bisect_torch.child_processes import Completed
from bisect_torch.environments.failures import NotInstallable, TransientFailure
from bisect_torch.errors import BisectTorchError, InfrastructureError
from bisect_torch.redaction import without_tokens

_LONGEST_SHORT = 160
"""Characters of a cause in short: with what was being done, two lines of a terminal."""

_LONGEST_DETAIL = 4000
"""Characters of what uv said that are kept."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

_DISK_FULL = re.compile(r"no space left on device|os error 28|disk quota exceeded|os error 122", re.IGNORECASE)
_HASH = re.compile(r"hash mismatch|hashes? (?:do|does) not match", re.IGNORECASE)
_REFUSED = re.compile(r"\b(?:401|403)\b.*(?:unauthorized|forbidden)|lack of valid authentication", re.IGNORECASE)
_CERTIFICATE = re.compile(r"invalid peer certificate|unknown ?issuer|self-?signed certificate", re.IGNORECASE)
_TRANSIENT = re.compile(
    r"\b(?:408|429|5\d\d)\b [A-Z][a-z]+|HTTP status server error|error sending request"
    r"|connection (?:reset|refused|closed|error)|connect(?:ion)? timed? ?out|timed out|operation timed|dns error"
    r"|unexpected (?:eof|end of file)"
    r"|incomplete message|request or response body error|error decoding response body|broken pipe|tls handshake",
    re.IGNORECASE,
)
_SILENT_TOO_OFTEN = re.compile(r"after [1-9]\d* retries.*timed out", re.IGNORECASE | re.DOTALL)
"""uv has waited several times; to wait as often again is to wait for hours when many builds are to be made."""
_NETWORK = re.compile(
    r"failed to (?:fetch|download|query)|HTTP status|404 Not Found|could not (?:be queried|connect)"
    r"|certificate|(?:torch|numpy|setuptools) was not found in the package registry|invalid zip file",
    re.IGNORECASE,
)
_OFFLINE = re.compile(r"network (?:was|connectivity is) disabled", re.IGNORECASE)
_UNSOLVABLE = re.compile(
    r"no solution found|unsatisfiable|no wheels? with a matching|has no (?:usable )?wheels"
    r"|doesn't have a (?:source|wheel)|no (?:compatible|matching) (?:wheel|version|distribution)"
    r"|requires-python|failed to build",
    re.IGNORECASE,
)

_NO_SUCH_NAME = re.compile(r"Because (\S+) was not found in the package registry and you require \1\b")
_NO_SUCH_VERSION = re.compile(r"Because there is no version of (\S+) and you require \1,")
"""Of what the user requires; of what something else requires uv tells the whole chain."""


def redact(text: str) -> str:
    """``text`` without passwords and tokens in addresses, and without colours."""
    return without_tokens(_COLOUR.sub("", text))


def gist(text: str, *, limit: int = 400) -> str:
    """What uv said, as one line: the error and its causes, without progress lines, tree marks and hints."""
    joined = " ".join(_said(text))
    return joined if len(joined) <= limit else joined[: limit - 1] + "…"


def in_short(text: str) -> str:
    """The same in a few words: what failed, and its innermost cause, without addresses."""
    lines = [re.sub(r":? *(?:for url \()?`?\bhttps?://[^\s`)]+[`)]*", "", line) for line in _said(text)]
    words = [line for line in lines if line]
    short = ": ".join(dict.fromkeys([words[0], words[-1]])) if words else ""
    return short if len(short) <= _LONGEST_SHORT else short[: _LONGEST_SHORT - 1] + "…"


def _said(text: str) -> list[str]:
    """The error and its causes, a line each, the outermost first."""
    lines: list[str] = []
    for raw in redact(text).splitlines():
        line = re.sub(r"^\s*(?:[×╰▶├─│>-]+\s*)+", "", raw).strip()
        line = re.sub(r"^(?:error|cause|Caused by):\s*", "", line, flags=re.IGNORECASE)
        if line.startswith(
            ("Resolved ", "Using Python", "Prepared ", "Downloading ", "Downloaded ", "warning:", "hint:")
        ):
            continue
        if line and line not in lines:
            lines.append(line)
    return lines


def classify(completed: Completed, doing: str) -> BisectTorchError:
    """The error that a failed uv command means. ``doing`` says what it was for: ``locking torch 2.9.1``.

    What says that our side failed is looked for first: an index that cannot be reached makes a resolution fail too. The
    message has the cause in short; all that uv said is the error's detail.
    """
    error = _classified(completed, doing)
    error.detail = redact(completed.stderr).strip()[-_LONGEST_DETAIL:] or None
    return error


def _classified(completed: Completed, doing: str) -> BisectTorchError:
    said = completed.stderr
    if completed.timed_out:
        return InfrastructureError(
            f"{doing}: uv did not end in time and was stopped",
            hint="`bisect-torch doctor` looks at the index; the same line tries again",
        )
    if completed.returncode < 0:
        return InfrastructureError(
            f"{doing}: uv was killed by signal {-completed.returncode}",
            hint="the same line tries again; `bisect-torch doctor` looks at memory and disk",
        )
    if _OFFLINE.search(said):
        return InfrastructureError(
            f"{doing}: offline, and not all of it is in the store's cache",
            hint="run once without --offline",
        )
    reason = in_short(said) or f"uv ended with status {completed.returncode} and no message"
    if _DISK_FULL.search(said):
        return InfrastructureError(f"{doing}: the disk is full", hint="free some space, or choose another --store")
    if _HASH.search(said):
        file = re.sub(r"`?\bhttps?://[^\s`]*/([^\s`/]+)`?", r"\1", _said(said)[0])  # its name, without the address
        return InfrastructureError(
            f"{doing}: a downloaded file is not the one in the lock: {file}",
            hint="the index serves other files; name it with --index-url so that it gets its own locks",
        )
    if _REFUSED.search(said):
        return InfrastructureError(
            f"{doing}: the index refused access: {reason}",
            hint="check the user name and password in the address, or UV_INDEX_*_PASSWORD",
        )
    if _CERTIFICATE.search(said):
        return InfrastructureError(
            f"{doing}: the index's certificate is not trusted: {reason}",
            hint="SSL_CERT_FILE names a file of certificates; uv's own settings count too",
        )
    if _SILENT_TOO_OFTEN.search(said):
        return InfrastructureError(f"{doing}: the network is silent: {reason}", hint="UV_HTTP_TIMEOUT sets the time")
    if _TRANSIENT.search(said):
        return TransientFailure(f"{doing}: the network failed: {reason}")
    if _NETWORK.search(said):
        return InfrastructureError(f"{doing}: {reason}", hint="`bisect-torch doctor` looks at uv, index and disk")
    if _UNSOLVABLE.search(said):
        return NotInstallable(_unsolvable(gist(said)))
    return InfrastructureError(f"{doing}: {reason}", hint="`bisect-torch doctor` looks at uv, index and disk")


def _unsolvable(text: str) -> str:
    """Why no set of versions fits, in short where it hangs on one name that the user gave."""
    if found := _NO_SUCH_NAME.search(text):
        return f"{found[1]} is not in the package index"
    if (found := _NO_SUCH_VERSION.search(text)) and not found[1].startswith("torch=="):
        return f"{found[1]} is not in the package index"
    return text
