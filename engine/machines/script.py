"""Shell scripts that run on a remote machine, and the facts that one of them collects.

A script is sent as standard input of `sh -s`, so no shell there has to parse it as a command line.
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from engine.experiment.problem import Kind, Problem, ProblemError, request_error
from engine.experiment.value import printable, shortened
from engine.installation.installed import platform_here
from engine.machines.line import Line
from engine.machines.machine import Machine

_LONGEST_ANSWER = 4 * 2**20
_HOME = re.compile(r"/[A-Za-z0-9._/+-]*")


@dataclass(frozen=True)
class Answer:
    """The output and exit status of a script on a remote machine. `chatter` is what the login printed."""

    text: str
    status: int
    chatter: str = ""


def run_script(line: Line, script: str, arguments: Sequence[str] = (), seconds: float = 30.0) -> Answer:
    """Run a shell script on the machine and return its output. Raises ProblemError, also if cut off."""
    mark = f"ammeter-{secrets.token_hex(8)}"
    # the script is read as a whole before it begins: a program in it would read the rest of it
    whole = f"main() {{\n{script}\n}}\necho {mark}\n"
    whole += f"(main {shlex.join(arguments)}) </dev/null 2>&1\necho {mark} $?\n"
    said = line.ask(["sh", "-s"], stdin=whole.encode(), seconds=seconds)[-_LONGEST_ANSWER:]
    text = said.decode("utf-8", "replace").replace("\r\n", "\n")
    found = re.fullmatch(rf"(.*?){mark}\n(.*?){mark} (\d+)\n?", text, re.DOTALL)
    if found is None:
        raise ProblemError(_unanswered(line.machine.name, text))
    return Answer(found[2], int(found[3]), found[1].strip())


def _unanswered(name: str, text: str) -> Problem:
    words = shortened(text.strip(), 200)
    message = f"{name} answers, but no shell runs there." + (f" Its answer: {words}" if words else "")
    remedy = "Its ssh server may allow only one command. Ask its administrator for a login with a shell."
    return Problem(kind=Kind.PROTOCOL, message=message, remedy=remedy)


@dataclass(frozen=True)
class RemoteFacts:
    """A remote machine's system, disk and installed programs, as found by a check.

    `home` is Ammeter's folder as an absolute path, `program` the id of the Ammeter version there, and `uv`
    the path of uv. The last two may be "". `pythons` are like "3.12.1". `unread` counts the runs that still
    train or were not read to the end. `is_own` is True if the folder is missing, empty or Ammeter's.
    """

    home: str
    system: str
    processor: str
    libc: str
    free_bytes: int
    is_writable: bool
    is_own: bool
    uv: str
    pythons: tuple[str, ...]
    program: str
    unread: int
    chatter: str

    @property
    def is_same_platform(self) -> bool:
        """True if the remote machine has the same operating system and processor type as this one."""
        return f"{self.system.lower()}-{self.processor.lower()}" == platform_here()


_LOOK = """
cd 2>/dev/null || cd /
case $1 in /*) home=$1 ;; "~/"*) home=$(pwd -P)/${1#??} ;; *) home=$(pwd -P)/$1 ;; esac
place=$home
while [ ! -d "$place" ]; do place=$(dirname "$place"); done
rest=${home#"$place"}
home=$(cd "$place" && pwd -P)$rest
say() { printf 'ammeter:%s %s\\n' "$1" "$2"; }
say home "$home"
say system "$(uname -s)"
say processor "$(uname -m)"
say libc "$(getconf GNU_LIBC_VERSION 2>/dev/null)"
say free "$(df -Pk "$place" | awk 'NR == 2 { print $4 }')"
[ -w "$place" ] && say writable yes
if [ -n "$rest" ] || [ -z "$(ls -A "$home")" ] || [ -f "$home/.ammeter-folder" ] ||
  [ -e "$home/program/current/bin/python" ]
then say own yes; fi
for each in uv "$HOME/.local/bin/uv" "$HOME/.cargo/bin/uv"; do
  if found=$(command -v "$each" 2>/dev/null); then say uv "$found"; break; fi
done
for each in python3 python3.14 python3.13 python3.12 python3.11; do
  command -v "$each" >/dev/null 2>&1 && say python "$("$each" -V 2>&1 | head -n 1)"
done
unread=0
for each in "$home"/workers/*/requests; do
  grep -q '"do": "keep"' "$each" 2>/dev/null && ! grep -q '"do": "forget"' "$each" && unread=$((unread + 1))
done
say unread "$unread"
[ -x "$home/program/current/bin/python" ] && say program "$(basename "$(readlink "$home/program/current")")"
true
"""


def inspect_machine(line: Line, machine: Machine) -> RemoteFacts:
    """Return the facts about a machine, without writing any file on it. Raises ProblemError."""
    answer = run_script(line, _LOOK, [machine.folder])
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^ammeter:(\w+) (.*)$", answer.text, re.MULTILINE):
        found.setdefault(key, []).append(printable(value)[:1_000])

    def first(key: str) -> str:
        return found.get(key, [""])[0].strip()

    home = first("home")
    if len(home) > 1_000 or not _HOME.fullmatch(home) or ".." in home.split("/"):
        raise request_error(
            f"The folder on {machine.name} would be '{shortened(home, 200)}', which needs quotes in a shell.",
            "Name another folder there: letters, digits and . _ / + - only, such as /scratch/me/ammeter.",
            key="folder",
            value=machine.folder,
        )
    free, unread = first("free"), first("unread")
    pythons = (re.fullmatch(r"Python (\d+\.\d+\.\d+)\S*", each.strip()) for each in found.get("python", []))
    return RemoteFacts(
        home=home,
        system=first("system"),
        processor=first("processor"),
        libc=first("libc"),
        free_bytes=int(free) * 1024 if re.fullmatch(r"\d{1,15}", free) else 0,
        is_writable=first("writable") == "yes",
        is_own=first("own") == "yes",
        uv=first("uv") if first("uv").startswith("/") else "",
        pythons=tuple(dict.fromkeys(each[1] for each in pythons if each)),
        program=first("program") if re.fullmatch(r"[0-9a-f]{1,64}", first("program")) else "",
        unread=int(unread) if re.fullmatch(r"\d{1,9}", unread) else 0,
        chatter=answer.chatter,
    )
