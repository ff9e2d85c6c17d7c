"""Which variables are secrets by their names, and which texts by their shape."""

from __future__ import annotations

import pytest

from bisect_torch.redaction import is_secret_name, secret_values, variables_for_uv, without_secrets, without_tokens

SECRET_NAMES = """
    HF_TOKEN GITHUB_TOKEN TOKEN OPENAI_API_KEY SSH_PRIVATE_KEY AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID DB_PASSWORD
    MYSQL_PWD PGPASSWORD SMTP_PASS CLIENT_SECRET GPG_PASSPHRASE DOCKER_AUTH_CONFIG SSH_AUTH_SOCK
    SENTRY_DSN CI_JOB_JWT
    UV_INDEX_CORP_USERNAME UV_INDEX_CORP_PASSWORD wandb_api_key GOOGLE_APPLICATION_CREDENTIALS SESSION_COOKIE
"""
ORDINARY_NAMES = """
    PWD OLDPWD HOME PATH TOKENIZERS_PARALLELISM KEYBOARD GIT_AUTHOR_NAME XAUTHORITY TORCH_COMPILE_KEY MONKEY LANG
    TORCHINDUCTOR_POST_GRAD_PASS CUDA_VISIBLE_DEVICES UV_INDEX_URL OMP_NUM_THREADS COMPASS BISECT_TORCH_STORE
"""


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ORDINARY_NAMES.split())
def test_names_that_only_look_like_it(name: str) -> None:
    assert not is_secret_name(name)


def test_children_get_no_secret_unless_it_is_named() -> None:
    given = {
        "HF_TOKEN": "x", "AWS_REGION": "eu-1", "HTTPS_PROXY": "http://me:pw@proxy:3128", "HTTP_PROXY": "http://proxy",
        "DATABASE_URL": "postgres://me:pw@db/x", "HOME": "/home/me", "UV_INDEX_CORP_PASSWORD": "pw",
    }  # fmt: skip
    assert without_secrets(given) == {"HTTP_PROXY": "http://proxy", "HOME": "/home/me"}
    assert without_secrets(given, ["HF_TOKEN"])["HF_TOKEN"] == "x"
    assert set(variables_for_uv(given)) == {"HTTPS_PROXY", "HTTP_PROXY", "HOME", "UV_INDEX_CORP_PASSWORD"}


def test_values_that_are_looked_for() -> None:
    """Long enough to be no chance hit; a word that stands for "none" is no secret; passwords in addresses are."""
    given = {
        "A_TOKEN": "0123456789", "B_TOKEN": "abc", "C_KEY": "default", "D_KEY": "abc123", "E_KEY": "abcdef",
        "INDEX": "https://me:p%40ssw0rd@host/simple", "HOME": "/home/me", "F_PASSWORD": "00000000",
        "AWS_REGION": "eu-west-1",
    }  # fmt: skip
    assert secret_values(given) == {"0123456789", "abc123", "p%40ssw0rd", "p@ssw0rd"}


JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAA+/=\n-----END OPENSSH PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ghp_" + "a1B2" * 9, "<redacted>"),
        ("github_pat_" + "a1B2" * 9, "<redacted>"),
        ("x=hf_" + "aBcD" * 9 + "!", "x=<redacted>!"),
        ("sk-" + "a1B2" * 9, "<redacted>"),
        ("sk-proj-" + "a1_B" * 9, "<redacted>"),
        ("key AKIAIOSFODNN7EXAMPLE.", "key <redacted>."),
        ("glpat-" + "a1B2" * 6, "<redacted>"),
        (f"({JWT})", "(<redacted>)"),
        (f"a\n{PEM}\nb", "a\n<redacted>\nb"),
        ("repr: '" + PEM.replace("\n", "\\n") + "'", "repr: '<redacted>'"),
        (PEM[:60], "<redacted>"),
        ("https://me:pw@host/simple/x?a=1", "https://<redacted>@host/simple/x?a=1"),
        ("http://only-a-token@host/", "http://<redacted>@host/"),
        ("https://h/x?token=abc&n=2&sig=d%3D#f", "https://h/x?token=<redacted>&n=2&sig=<redacted>#f"),
        ("https://h/x?X-Amz-Signature=0a&X-Amz-Security-Token=1b", "https://h/x?X-Amz-Signature=<redacted>&X-Amz-Security-Token=<redacted>"),
        ("Authorization: Basic bWU6cGFzc3dvcmQxMjM=", "Authorization: Basic <redacted>"),
        ("Bearer abcdef0123456789abcdef", "Bearer <redacted>"),
        ("train --api-key abcdef0 --n 3", "train --api-key <redacted> --n 3"),
        ("train --token=abcdef0", "train --token=<redacted>"),
        ("{'WANDB_API_KEY': 'abc123def456'}", "{'WANDB_API_KEY': '<redacted>'}"),
        ("DB_PASSWORD=abc123def456", "DB_PASSWORD=<redacted>"),
    ],
)  # fmt: skip
def test_secrets_by_their_shape(before: str, after: str) -> None:
    assert without_tokens(before) == after
    assert without_tokens(after) == after


@pytest.mark.parametrize(
    "text",
    [
        "git@github.com:pytorch/pytorch and ssh://git@github.com/pytorch/pytorch",
        'url = f"https://{user}:{password}@host/{path}?token={token}"',
        'TOKEN = os.environ["API_TOKEN"]',
        'PAD_TOKEN = "<pad>"; EOS_TOKEN_ID = 50256',
        "numpy==2.2.2 --hash=sha256:" + "0a" * 32,
        "https://github.com/pytorch/pytorch/compare/2236df177080...134179474539",
        "the token is wrong; basic block; task-force; risk-averse sk-learn",
        "--max-tokens 100 --author somebody-else",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_tokens(text) == text
