"""Which environment variables hold secrets, by their names. One table for two uses.

Variables that :func:`holds_credentials` reach no worker, no control case and no build unless ``--pass-env`` names them.
The values of those that :func:`is_secret_name` says are secrets are taken out of everything that is written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from urllib.parse import unquote, urlsplit

from bisect_torch.redaction.shapes import SECRET_OPTION

SHORTEST = 8
"""Characters of a secret. A shorter value counts only from :data:`SHORTEST_MIXED` on, with letters and digits."""

SHORTEST_MIXED = 6

_ANYWHERE = ("SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY", "PRIVATEKEY", "ACCESSKEY")
_WORDS = frozenset({"TOKEN", "PAT", "COOKIE", "COOKIES", "AUTH", "AUTHORIZATION", "DSN", "JWT", "SAS", "PWD"})
_LAST_WORDS = frozenset({"KEY", "KEYS", "PASS"})
_EXEMPT = frozenset({"PWD", "OLDPWD", "INIT_CWD"})
_INDEX_USER = re.compile(r"UV_INDEX_.+_USERNAME")

# Whole families that may hold secrets: regions and profiles are among them, so their values are no secrets by that.
_FAMILIES = ("AWS_", "AZURE_", "VAULT_", "ACTIONS_ID_TOKEN_", "ACTIONS_RUNTIME_")

# Settings of torch and what lies below it may be called …_PASS or …_KEY, and results depend on them.
_SETTINGS = ("TORCH", "PYTORCH_", "TRITON_", "CUDA_", "NCCL_")

# What people write where a secret should stand. Taking such a word out of texts would only damage them.
_NO_SECRETS = frozenset(
    {"anonymous", "changeme", "default", "disabled", "enabled", "environment", "password", "redacted", "required"}
)  # fmt: skip

_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/'\"<>@]+@[^\s'\"<>]+", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether the value of a variable of this name is a secret: ``HF_TOKEN``, ``API_KEY``, ``MYSQL_PWD``.

    Words are what stands between underscores: ``TOKENIZERS_PARALLELISM`` is no token.
    """
    shown = name.upper()
    if shown in _EXEMPT:
        return False
    words = re.split(r"[^A-Z0-9]+", shown)
    if any(part in shown for part in _ANYWHERE) or _WORDS.intersection(words):
        return True
    if _INDEX_USER.fullmatch(shown):
        return True
    # ACCESS_KEY_ID and SSH_KEY_PATH have one more word behind it.
    return not shown.startswith(_SETTINGS) and bool(_LAST_WORDS.intersection(words[1:][-2:]) or words == ["KEY"])


def holds_credentials(name: str, value: str) -> bool:
    """Whether a variable is kept from children: by its name, its family, or an address with a user in its value."""
    return is_secret_name(name) or name.upper().startswith(_FAMILIES) or bool(_ADDRESS.search(value))


def without_secrets(variables: Mapping[str, str], passed: Collection[str] = ()) -> dict[str, str]:
    """The variables that a child may have.

    Args:
        passed: Names that the user lets through.
    """
    return {name: value for name, value in variables.items() if name in passed or not holds_credentials(name, value)}


def variables_for_uv(variables: Mapping[str, str], passed: Collection[str] = ()) -> dict[str, str]:
    """The variables that uv may have: its own credentials, the proxy's, and no other secret.

    What builds a package is started by uv and inherits them.
    """
    own = [name for name in variables if name.startswith("UV_") or name.upper().endswith("_PROXY")]
    return without_secrets(variables, (*own, *passed))


def secret_values(variables: Mapping[str, str]) -> frozenset[str]:
    """Every text in these variables that must not be written anywhere: values of secrets, passwords in addresses."""
    found = [value.strip() for name, value in variables.items() if is_secret_name(name)]
    found += [part for value in variables.values() for part in _passwords(value)]
    return frozenset(value for value in found if is_secret_value(value))


def secret_words(words: Sequence[str]) -> frozenset[str]:
    """Secrets on a command line: what ``--password`` and the like give, and passwords in addresses."""
    found = [part for word in words for part in _passwords(word)]
    for before, word in zip(["", *words], words, strict=False):
        option, _, value = word.partition("=")
        if SECRET_OPTION.fullmatch(before):
            found.append(word)
        elif SECRET_OPTION.fullmatch(option):
            found.append(value)
    return frozenset(value for value in found if is_secret_value(value))


def is_secret_value(value: str) -> bool:
    """Whether a text is long and odd enough to be looked for: a short word would be found everywhere."""
    if value.lower() in _NO_SECRETS or len(set(value)) < 3:
        return False
    mixed = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    return len(value) >= (SHORTEST_MIXED if mixed else SHORTEST)


def _passwords(value: str) -> Iterator[str]:
    for address in _ADDRESS.findall(value):
        try:
            password = urlsplit(address).password
        except ValueError:
            continue
        if password:
            yield from (password, unquote(password))
