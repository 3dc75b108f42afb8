"""The programs of the README."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_and_prints(program):
    assert subprocess.check_output([sys.executable, "-c", program], timeout=60)
