"""Secrets that show by their shape, whoever's they are: tokens with a known beginning, credentials in addresses.

The beginnings are those that the services document and that gitleaks lists in its default rules
(https://github.com/gitleaks/gitleaks, ``config/gitleaks.toml``); lengths are looser here, since half a token, or one
of tomorrow's length, is a secret too.

Most texts hold nothing that looks like one: the long patterns are compiled when a text does, by ``re`` itself, which
keeps them.
"""

from __future__ import annotations

import re

HIDDEN = "<redacted>"

_TOKENS = (
    r"gh[pousr]_[A-Za-z0-9]{20,}",  # GitHub
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"glpat-[A-Za-z0-9_-]{20,}",  # GitLab
    r"hf_[A-Za-z0-9]{20,}",  # Hugging Face
    r"api_org_[A-Za-z0-9]{20,}",
    r"sk-(?:proj|svcacct|admin|ant|or)-[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic, OpenRouter
    r"sk-[A-Za-z0-9]{20,}",
    r"[sr]k_(?:test|live|prod)_[A-Za-z0-9]{10,}",  # Stripe
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",  # AWS
    r"AIza[A-Za-z0-9_-]{35}",  # Google
    r"ya29\.[A-Za-z0-9_-]{20,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-AgE[A-Za-z0-9_-]{40,}",
    r"dckr_pat_[A-Za-z0-9_-]{20,}",  # Docker
    r"dop_v1_[a-f0-9]{64}",  # DigitalOcean
    r"hv[bs]\.[A-Za-z0-9_-]{20,}",  # Vault
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",  # SendGrid
    r"ey[A-Za-z0-9_-]{10,}\.ey[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?",  # JWT
)
_TOKEN = rf"(?<![A-Za-z0-9])(?:{'|'.join(_TOKENS)})"
_BEGINNING = re.compile("|".join(each.partition("[A-")[0].partition("[a-")[0] for each in _TOKENS))
"""How each of them begins: quickly not found in most texts."""

# Also one whose end was cut off: what follows the first line is the key.
_PRIVATE_KEY = (
    r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:.*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|(?:\\[nr]|[A-Za-z0-9+/=\s:,.-])*)"
)

# ``git@`` is no secret: every clone by ssh has it. Nor is what a program has yet to fill in: ``{token}``, ``$TOKEN``.
_USER_IN_ADDRESS = r"(?i)(\b[a-z][a-z0-9+.-]*://)(?!git@)[^\s/'\"<>@{}$]+(?:@[^\s/'\"<>@{}$]+)*@"

_SECRET_WORD = r"(?:token|secret|password|passwd|passphrase|signature|credential|sig|api[-_]?key|access[-_]?key|auth)"
_QUERY = rf"(?i)([?&;][A-Za-z0-9_.\[\]-]*(?:{_SECRET_WORD}|key)[A-Za-z0-9_.\[\]-]*=)[^&\s'\"<>#{{}}$]+"
_HEADER = r"(?i)(\b(?:Basic|Bearer|token)[ ]+)(?=[^\s]*[0-9=+/._-])[A-Za-z0-9+/=._~-]{16,}"

# ``--api-key X`` and ``--token=X`` on a command line.
_OPTION = rf"(?i)((?<![\w>-])--?[a-z0-9-]*{_SECRET_WORD}(?:[=\s]+))(?!-)['\"]?[^\s'\"<>]{{6,}}['\"]?"
SECRET_OPTION = re.compile(rf"--?[a-z0-9-]*{_SECRET_WORD}", re.IGNORECASE)

# ``API_TOKEN=x1…`` and ``'API_TOKEN': 'x1…'``, as a program prints its variables. A value has letters and digits.
_VARIABLE = (
    r"(\b[A-Z][A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|PRIVATE_KEY|_PWD)(?:_ID)?['\"]?\s?[=:]\s?['\"]?)"
    r"(?=[A-Za-z0-9+/_.=-]*[0-9])(?=[A-Za-z0-9+/_.=-]*[A-Za-z])[A-Za-z0-9+/_.=-]{8,}(?![A-Za-z0-9+/_.=(\[-])"
)

_WORD = re.compile(rf"key|_PWD|basic|bearer|{_SECRET_WORD}", re.IGNORECASE)
"""Without one of these none of the four patterns above finds anything."""


def without_tokens(text: str) -> str:
    """The text without what is a secret by its shape. What has none is given back as it is."""
    if "PRIVATE KEY" in text:
        text = re.sub(_PRIVATE_KEY, HIDDEN, text)
    if _BEGINNING.search(text):
        text = re.sub(_TOKEN, HIDDEN, text)
    if "://" in text:
        text = re.sub(_USER_IN_ADDRESS, rf"\1{HIDDEN}@", text)
    if not _WORD.search(text):
        return text
    if "=" in text or ":" in text:
        text = re.sub(_QUERY, rf"\1{HIDDEN}", text)
        text = re.sub(_VARIABLE, rf"\1{HIDDEN}", text)
    text = re.sub(_HEADER, rf"\1{HIDDEN}", text)
    return re.sub(_OPTION, rf"\1{HIDDEN}", text) if "-" in text else text
