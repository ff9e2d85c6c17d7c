"""A script runs as ``python script.py`` does; a command runs in the environment."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.engine.worker_process import CaseFileError, WorkerProcess
from bisect_torch.model import Isolation
from bisect_torch.worker import system
from tests.worker.support import StartWorker, eventually


@pytest.fixture
def worker(start: StartWorker) -> WorkerProcess:
    return start()


def script(folder: Path, text: str, name: str = "repro.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def run(worker: WorkerProcess, path: Path, **options: object) -> dict[str, object]:
    request = CellRequest(path, "script", path.stem, isolation=Isolation.PROCESS, cwd=path.parent, **options)  # type: ignore[arg-type]
    return worker.run(request)


def test_a_script_sees_what_python_would_show_it(worker: WorkerProcess, tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import os, pickle, sys, helper
        class Thing: pass
        if __name__ == "__main__":
            pickle.loads(pickle.dumps(Thing()))
            print(sys.argv, __file__, os.getcwd(), helper.VALUE, sys.path[-1])
        """,
    )
    (tmp_path / "helper.py").write_text("VALUE = 17\n")
    facts = run(worker, path)
    assert facts["outcome"] == "returned", facts
    assert facts["stdout_tail"] == f"['{path}'] {path} {tmp_path} 17 {tmp_path}\n"
    assert list(json.loads(str(facts["local_modules"]))) == ["helper.py"]
    assert facts["worker"] == f"{worker.worker_id}.1"


def test_an_exception_in_a_script_is_an_exception_and_not_an_exit(worker: WorkerProcess, tmp_path: Path) -> None:
    facts = run(worker, script(tmp_path, "def f():\n    raise KeyError('x')\nf()\n"))
    assert (facts["outcome"], facts["error_type"], facts["frame"]) == ("raised", "KeyError", "repro:f")
    assert facts["frame_origin"] == "case"
    assert str(facts["stderr_tail"]).startswith("Traceback (most recent call last):\n  File ")
    assert "bisect_torch" not in str(facts["stderr_tail"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import sys; sys.exit(3)", {"outcome": "exited", "exit_code": 3, "phase": "run"}),
        ("import sys; sys.exit('no')", {"outcome": "exited", "exit_code": 1, "message": "no", "stderr_tail": "no\n"}),
        ("import sys; sys.exit(125)", {"outcome": "skipped"}),
        ("import sys; sys.exit(0)", {"outcome": "returned"}),
        ("import os; os._exit(0)", {"outcome": "exited", "exit_code": 0, "phase": "run"}),
        ("import atexit, os; atexit.register(os.abort); print('right')", {"outcome": "signalled", "phase": "exit"}),
        ("import atexit, os; atexit.register(os._exit, 9)", {"outcome": "exited", "exit_code": 9, "phase": "exit"}),
        ("import os\nclass D:\n  def __del__(self): os.abort()\nd = D()", {"outcome": "signalled", "phase": "exit"}),
        ("import torch\ntorch.nothing", {"outcome": "raised", "absent_name": "torch.nothing"}),
        ("from torch import nothing", {"outcome": "raised", "absent_name": "torch.nothing"}),
        ("import torch.none.x", {"outcome": "raised", "missing_module": "torch.none", "absent_name": "torch.none"}),
        ("import torch.testing as t\nt.fail()", {"outcome": "raised", "frame_origin": "torch.testing"}),
        ("def f(", {"outcome": "raised", "error_type": "SyntaxError", "phase": "load"}),
        (
            "import argparse; parser = argparse.ArgumentParser()\nparser.add_argument('n')\nparser.parse_args()",
            {
                "outcome": "environment_broken",
                "reason": "it wants arguments: the following arguments are required: n",
            },
        ),
        ("import argparse; argparse.ArgumentParser().exit(2)", {"outcome": "exited", "exit_code": 2}),
        ("import warnings; warnings.warn('x')", {"outcome": "returned", "warnings": '["UserWarning: x"]'}),
    ],
)
def test_how_a_script_can_end(worker: WorkerProcess, tmp_path: Path, text: str, expected: dict[str, object]) -> None:
    facts = run(worker, script(tmp_path, text + "\n"))
    assert {name: facts.get(name) for name in expected} == expected, facts


def test_what_has_the_name_of_torch_beside_a_script_is_passed_over_and_reported(
    worker: WorkerProcess, tmp_path: Path
) -> None:
    for name in ("torch.py", "random.py"):
        (tmp_path / name).write_text("raise SystemError\n")
    facts = run(worker, script(tmp_path, "import torch, random\nassert torch.__version__ == '0.0'\n"))
    assert facts["outcome"] == "returned"
    assert [text.split()[1] for text in json.loads(str(facts["warnings"]))] == ["random.py", "torch.py"]


def test_a_script_that_has_the_name_of_torch_gets_the_real_one_and_is_told_so(
    worker: WorkerProcess, tmp_path: Path
) -> None:
    (tmp_path / "turtle.py").write_text("")  # of a name that nobody imports
    facts = run(worker, script(tmp_path, "import torch\nassert torch.__version__ == '0.0'\n", "torch.py"))
    assert facts["outcome"] == "returned"
    (said,) = json.loads(str(facts["warnings"]))
    assert said.startswith("bisect-torch: python torch.py would import it as torch")


def test_variables_that_a_script_sets_before_it_imports_torch_are_there_when_torch_is_loaded(
    worker: WorkerProcess, tmp_path: Path
) -> None:
    text = "import os, sys\nassert 'torch' not in sys.modules\nos.environ['OMP_NUM_THREADS'] = '1'\nimport torch\n"
    assert run(worker, script(tmp_path, text))["outcome"] == "returned"


def test_multiprocessing_works_in_a_script(worker: WorkerProcess, tmp_path: Path) -> None:
    text = """
        import multiprocessing, os
        def work(queue):
            queue.put(6 * 7)
        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            queue = context.Queue()
            process = context.Process(target=work, args=(queue,))
            process.start()
            print(queue.get(timeout=20))
            process.join()
        """
    facts = run(worker, script(tmp_path, text))
    assert (facts["outcome"], facts["stdout_tail"]) == ("returned", "42\n"), facts["stderr_tail"]


def test_a_process_that_a_script_forks_does_not_speak_for_it(worker: WorkerProcess, tmp_path: Path) -> None:
    text = "import os, sys\npid = os.fork()\nif not pid: sys.exit(0)\nos.waitpid(pid, 0)\nraise ValueError('mine')\n"
    facts = run(worker, script(tmp_path, text))
    assert (facts["outcome"], facts["message"]) == ("raised", "mine")


def test_a_thread_that_keeps_a_script_alive_is_a_hang_at_exit(worker: WorkerProcess, tmp_path: Path) -> None:
    text = "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n"
    facts = run(worker, script(tmp_path, text), timeout_s=1.0)
    assert (facts["outcome"], facts["phase"]) == ("timed_out", "exit")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["python", "-c", "import torch; print(torch.__version__)"], {"outcome": "returned", "stdout_tail": "0.0\n"}),
        (["sh", "-c", "python -c 'import torch'"], {"outcome": "returned"}),
        (["sh", "-c", "exit 125"], {"outcome": "skipped"}),
        (["sh", "-c", "exit 7"], {"outcome": "exited", "exit_code": 7}),
        (["sh", "-c", "kill -SEGV $$"], {"outcome": "signalled", "signal": "SIGSEGV"}),
        (["sh", "-c", "kill -KILL $$"], {"outcome": "lost"}),
        (["no-such-command-here"], {"outcome": "environment_broken", "exit_code": 127}),
        (["/etc/passwd"], {"outcome": "environment_broken", "exit_code": 126}),
    ],
)
def test_how_a_command_can_end(
    worker: WorkerProcess, tmp_path: Path, argv: list[str], expected: dict[str, object]
) -> None:
    facts = worker.run(CellRequest(tmp_path, "command", argv[0], argv=tuple(argv), cwd=tmp_path))
    assert {name: facts.get(name) for name in expected} == expected, facts
    assert system.descendants(worker._process.pid) == []


def test_output_that_matches_makes_a_mismatch(worker: WorkerProcess, tmp_path: Path) -> None:
    argv = ("sh", "-c", "yes | head -c 1000000; printf 'loss: nan'")
    facts = worker.run(CellRequest(tmp_path, "command", "sh", argv=argv, bad_if_output=r"loss: (nan|inf)$"))
    assert (facts["outcome"], facts["mismatch"]) == ("returned", "output matches loss: (nan|inf)$")
    facts = worker.run(CellRequest(tmp_path, "command", "sh", argv=("echo", "loss: 1"), bad_if_output="loss: nan"))
    assert facts.get("mismatch") is None


def test_a_command_that_hangs_is_killed_with_all_it_started(worker: WorkerProcess, tmp_path: Path) -> None:
    argv = ("sh", "-c", "setsid sleep 1000 & sleep 1000")
    facts = worker.run(CellRequest(tmp_path, "command", "sh", argv=argv, timeout_s=0.5))
    assert facts["outcome"] == "timed_out"
    assert eventually(lambda: system.descendants(worker._process.pid) == [])


def test_expand_lists_instances_and_reports_what_cannot_be_loaded(worker: WorkerProcess, tmp_path: Path) -> None:
    path = script(tmp_path, "from bisect_torch import case\n@case(n=[1, 2])\ndef f(n): ...\n")
    assert [(row["case"], row["parameters"]) for row in worker.expand(path)] == [("f", {"n": 1}), ("f", {"n": 2})]
    path.write_text("import no_such_module_here\n")
    with pytest.raises(CaseFileError, match="No module named 'no_such_module_here'") as caught:
        worker.expand(path)
    assert caught.value.facts["missing_module"] == "no_such_module_here"
    path.write_text("import os\nos.abort()\n")
    with pytest.raises(CaseFileError, match="SIGABRT"):
        worker.expand(path)
    path.write_text("from bisect_torch import case\n@case\ndef f(): ...\n")
    assert len(worker.expand(path)) == 1


def test_without_a_stage_every_cell_has_its_own_interpreter(start: StartWorker, tmp_path: Path) -> None:
    path = script(tmp_path, "from bisect_torch import case\n@case\ndef f(): ...\n")
    worker = start("none")
    facts = [worker.run(CellRequest(path, "case", "f", isolation=Isolation.FORK)) for _ in range(2)]
    assert [each["isolation"] for each in facts] == ["process", "process"]
    assert [each["worker"] for each in facts] == [f"{worker.worker_id}.1", f"{worker.worker_id}.2"]


def test_a_torch_that_cannot_be_imported_is_a_broken_environment(
    start: StartWorker, tmp_path: Path, interpreter: Path
) -> None:
    import shutil

    shutil.copytree(interpreter.parents[1], tmp_path / "broken", symlinks=True)
    (init,) = (tmp_path / "broken").glob("lib/python*/site-packages/torch/__init__.py")
    path = script(tmp_path, "print('x')\n")
    for text, reason in (
        ("raise OSError('libtorch.so: truncated')", "truncated"),
        ("import os; os.abort()", "SIGABRT"),
    ):
        init.write_text(text + "\n")
        worker = start("eager", python=tmp_path / "broken" / "bin" / "python")
        facts = run(worker, path)
        assert facts["outcome"] == "environment_broken"
        assert reason in str(facts["reason"])


def test_a_case_that_is_not_declared_on_this_build_is_skipped(worker: WorkerProcess, tmp_path: Path) -> None:
    """Also when it is the file's only one."""
    head = "import torch\nfrom bisect_torch import case\nif hasattr(torch, 'new'):\n    @case\n    def f(): pass\n"
    for more in ("", "@case\ndef g(): pass\n"):
        facts = worker.run(CellRequest(script(tmp_path, head + more), "case", "f"))
        assert (facts["outcome"], facts["reason"]) == ("skipped", "the case file does not declare it on this build")


def test_the_second_stage_serves_and_goes_back(start: StartWorker, tmp_path: Path) -> None:
    path = script(tmp_path, "import os\nfrom bisect_torch import case\n@case\ndef f(): print(os.getppid())\n")
    worker = start()
    parents = []
    for stage in ("eager", "compile", "compile", "eager", "compile"):
        assert worker.prepare(stage) == ""
        facts = worker.run(CellRequest(path, "case", "f"))
        assert (facts["outcome"], facts["worker"]) == ("returned", worker.worker_id)
        parents.append(int(str(facts["stdout_tail"])))
    assert parents[0] == parents[3] == worker._process.pid
    assert parents[1] == parents[2] != parents[0]
    assert parents[4] not in parents[:4]


def test_a_killed_second_stage_loses_the_cell_and_ends_the_worker(start: StartWorker, tmp_path: Path) -> None:
    path = script(tmp_path, "import os\nfrom bisect_torch import case\n@case\ndef f(): os.kill(os.getppid(), 9)\n")
    worker = start("compile")
    assert worker.run(CellRequest(path, "case", "f"))["outcome"] == "lost"
    assert eventually(lambda: worker._process.poll() is not None)


@pytest.mark.parametrize(
    "skipped",
    [
        "from unittest import SkipTest as Skipped",
        "class Skipped(BaseException): __module__ = 'builtins'  # as pytest's",
    ],
)
def test_a_script_that_raises_what_tests_are_skipped_by_is_skipped(
    worker: WorkerProcess, tmp_path: Path, skipped: str
) -> None:
    facts = run(worker, script(tmp_path, f"{skipped}\nraise Skipped('not here')"))
    assert (facts["outcome"], facts.get("reason")) == ("skipped", "not here")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import sys\nif sys: sys.exit(0)\nassert 0", 2),
        ("def f():\n    exit()\nf()", 2),
        ("import argparse\nargparse.ArgumentParser().exit(0)", None),
        ("import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\nunittest.main()", None),
        ("pass", None),
    ],
)
def test_where_a_script_leaves_by_itself_is_kept(
    worker: WorkerProcess, tmp_path: Path, text: str, line: int | None
) -> None:
    facts = run(worker, script(tmp_path, text))
    assert facts["outcome"] == "returned"
    assert json.loads(str(facts.get("measurements") or "{}")).get("left_at_line") == line


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("check(1.0)", "it compares with a reference: check(actual, reference)"),
        (
            "check(1.0, 1.0, tol=1)",
            "it takes rtol=, atol=, k=, rows=, blocks=, explain=, inputs=, not tol=",
        ),
        ("check(1.0, refrence=1.0)", "it takes rtol=, atol=, k=, rows=, blocks=, explain=, inputs=, not refrence="),
        ("check(1.0, 1.0, rtol=-1)", "rtol is not negative, but -1 was given"),
    ],
)
def test_a_check_that_is_called_wrongly_says_nothing_about_torch(
    worker: WorkerProcess, tmp_path: Path, call: str, reason: str
) -> None:
    facts = run(worker, script(tmp_path, f"from bisect_torch import check\n{call}\n"))
    assert facts["outcome"] == "environment_broken"
    assert facts["reason"] == f"check() is called wrongly: {reason}"
