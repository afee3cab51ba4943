"""An index with all that the program needs, packed from this environment; its PyTorch is that of this one."""

from __future__ import annotations

import re
import zipfile
from importlib.metadata import Distribution, distribution
from importlib.util import find_spec
from pathlib import Path

from engine.machines.program import REQUIREMENTS
from tests.wheel_index import stand_in_wheel

_LEADS_TO_THE_REAL_ONE = """
import sys
from pathlib import Path
__version__ = "2.99.0"
here = str(Path(__file__).parents[1])
sys.path[:] = [each for each in sys.path if each != here] + [{site!r}]
del sys.modules["torch"]
import torch
"""


def write_index(folder: Path) -> None:
    """Writes the wheels; it takes some seconds."""
    folder.mkdir(parents=True)
    left, known = list(REQUIREMENTS), set[str]()
    while left:
        found = distribution(left.pop())
        if found.name not in known:
            known.add(found.name)
            _pack(found, folder)
            lines = [line for line in found.requires or () if "extra ==" not in line]
            names = (re.match(r"[\w.-]+", line) for line in lines if "sys_platform ==" not in line)
            left += [name[0] for name in names if name and _is_here(name[0])]
    spec = find_spec("torch")
    assert spec is not None and spec.origin is not None
    leads = _LEADS_TO_THE_REAL_ONE.format(site=str(Path(spec.origin).parents[1]))
    stand_in_wheel(folder, "torch", "2.99.0", {"torch/__init__.py": leads})
    stand_in_wheel(folder, "torchvision", "0.99.0", requires=["torch"])


def _is_here(name: str) -> bool:
    try:
        return bool(distribution(name))
    except ImportError:
        return False


def _pack(found: Distribution, folder: Path) -> None:
    tags = re.findall(r"^Tag: (.+)$", found.read_text("WHEEL") or "", re.MULTILINE)
    first, *rest = (tag.split("-") for tag in tags)
    tag = "-".join(".".join(dict.fromkeys(each[part] for each in (first, *rest))) for part in range(3))
    name = re.sub(r"[-_.]+", "_", found.name)
    with zipfile.ZipFile(folder / f"{name}-{found.version}-{tag}.whl", "w") as wheel:
        for file in found.files or ():
            path = Path(str(found.locate_file(file)))
            own = ("INSTALLER", "REQUESTED", "direct_url.json")
            if ".." not in file.parts and path.is_file() and file.suffix != ".pyc" and path.name not in own:
                wheel.write(path, str(file))
