"""A journal loses nothing that was written, and uses nothing that is damaged."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisect_torch.errors import InfrastructureError
from bisect_torch.results import Journal
from bisect_torch.results.journal import decode, encode

RECORDS = [{"n": number, "text": "x\n" * number} for number in range(4)]
ROOT = Path(__file__).parents[2]


def test_what_is_appended_is_read_in_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    assert journal.read().records == ()
    for record in RECORDS:
        journal.append(record)
    assert list(journal.read().records) == RECORDS
    assert not journal.read().torn


def test_nothing_is_made_before_the_first_append(tmp_path: Path) -> None:
    Journal(tmp_path / "j").read()
    assert list(tmp_path.iterdir()) == []


def test_cut_off_at_any_byte_every_whole_record_is_read_and_the_next_append_is_sound(tmp_path: Path) -> None:
    data = b"".join(encode(record) for record in RECORDS)
    ends = [len(b"".join(encode(record) for record in RECORDS[:n])) for n in range(len(RECORDS) + 1)]
    path = tmp_path / "j"
    for size in range(len(data) + 1):
        whole = sum(end - 1 <= size for end in ends[1:])  # the line feed alone may be missing
        path.write_bytes(data[:size])
        assert list(Journal(path).read().records) == RECORDS[:whole]
        assert Journal(path).read().torn == (size not in ends and size + 1 not in ends)
        journal = Journal(path)
        journal.append({"new": True})
        journal.close()
        content = Journal(path).read()
        assert list(content.records) == [*RECORDS[:whole], {"new": True}]
        assert not content.torn
        assert not content.damaged


def test_a_flipped_bit_anywhere_is_noticed_and_costs_only_its_lines(tmp_path: Path) -> None:
    data = b"".join(encode(record) for record in RECORDS)
    for place in range(len(data)):
        for bit in (0, 3, 7):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            content = decode(bytes(damaged))
            assert all(record in RECORDS for record in content.records)
            assert content.damaged or content.torn or len(content.records) == len(RECORDS) - (place == len(data) - 1)
            assert len(content.records) >= len(RECORDS) - 2


@given(st.binary(max_size=200))
@settings(max_examples=50)
def test_any_bytes_can_be_read(data: bytes) -> None:
    assert decode(data).records == ()


def test_several_threads_and_journals_of_one_path_do_not_mix_lines(tmp_path: Path) -> None:
    def write(journal: Journal, name: int) -> None:
        for number in range(50):
            journal.append({"name": name, "number": number, "text": "y" * 3000})

    journals = [Journal(tmp_path / "j"), Journal(tmp_path / "j")]
    threads = [threading.Thread(target=write, args=(journals[name % 2], name)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = journals[0].read()
    assert not content.damaged
    assert not content.torn
    for name in range(6):
        assert [r["number"] for r in content.records if r["name"] == name] == list(range(50))


def test_an_append_after_another_run_removed_the_journal_begins_a_new_one(tmp_path: Path) -> None:
    mine, other = Journal(tmp_path / "j"), Journal(tmp_path / "j")
    mine.append({"n": 0})
    with other.locked():
        other.remove_locked()
    mine.append({"n": 1})
    assert list(Journal(tmp_path / "j").read().records) == [{"n": 1}]


WRITER = """
import sys
from pathlib import Path
from bisect_torch.results import Journal
journal = Journal(Path(sys.argv[1]))
for number in range(10**9):
    journal.append({"number": number, "text": "z" * (number % 5000)})
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


def test_a_writer_killed_at_random_moments_loses_nothing_that_it_had_finished(tmp_path: Path) -> None:
    path = tmp_path / "j"
    dice = random.Random(3)
    kept = 0
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(dice.random() / 20)
            writer.send_signal(signal.SIGKILL)
            told = 1 + sum(line.endswith("\n") for line in writer.stdout)
        content = Journal(path).read()
        assert not content.damaged
        assert len(content.records) >= kept + told
        assert len(content.records) <= kept + told + 1
        kept = len(content.records)


FULL = """
import resource, signal, sys
from pathlib import Path
from bisect_torch.errors import InfrastructureError
from bisect_torch.results import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
journal = Journal(Path(sys.argv[1]))
for number in range(100):
    try:
        journal.append({"number": number, "text": "z" * 900})
    except InfrastructureError as error:
        print(number, error.exit_code)
        break
journal.append({"small": True})
"""


def test_when_no_more_fits_on_the_disk_what_was_written_is_kept(tmp_path: Path) -> None:
    """The limit on a file's size stands for a full disk: the last write is cut off in the same way."""
    path = tmp_path / "j"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, cwd=ROOT, check=True)
    number, code = done.stdout.split()
    content = Journal(path).read()
    assert code == "3"
    assert [r.get("number") for r in content.records] == [*range(int(number)), None]
    assert not content.damaged
    assert not content.torn
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_it_is_synced_at_most_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(os, "fsync", calls.append)
    journal = Journal(tmp_path / "j")
    started = time.monotonic()
    for number in range(300):
        journal.append({"n": number})
    assert 1 <= len(calls) <= 1 + (time.monotonic() - started)
    before = len(calls)
    journal.close()
    assert len(calls) == before + 1


def test_a_folder_that_is_gone_is_an_infrastructure_error(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cannot write"):
        Journal(tmp_path / "gone" / "j").append({})
    with pytest.raises(InfrastructureError, match="cannot read"):
        Journal(tmp_path).read()
