"""Fails if a listed kernel has a stack frame, so spills registers, on any architecture for which the build compiles.

    registers_test.py LIST BUILD_FOLDER CUOBJDUMP ARCHITECTURE...

LIST contains lines "source kernel". CUOBJDUMP, a program of CUDA's toolkit, is asked about the build's objects. A source
whose object it cannot read for every architecture is compiled once more, by the build's own command and `-Xptxas -v`;
all are, if it is `none`.
"""

import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Found(NamedTuple):
    architecture: str  # sm_80
    kernel: str  # as the compiler names it
    stack_bytes: int


def listed(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            source, kernel = line.split()
            yield source, kernel


def command_of(source: str, build: Path) -> tuple[list[str], Path]:
    """The build's command for a source, and the folder where it runs."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if entry["file"].endswith("/" + source):
            return shlex.split(entry["command"]), Path(entry["directory"])
    raise SystemExit(f"{source} is in the list, but the build does not compile it: correct the list")


def from_object(cuobjdump: str, path: Path) -> Iterator[Found]:
    try:
        said = subprocess.run([cuobjdump, "--dump-resource-usage", path], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{path.name} is not read: {error}")
        return
    architecture = kernel = ""
    for line in said.stdout.splitlines():
        if match := re.search(r"arch = (sm_\d+)", line):
            architecture = match[1]
        elif match := re.search(r"Function (\S+):", line):
            kernel = match[1]
        elif match := re.search(r"STACK:(\d+)", line):
            yield Found(architecture, kernel, int(match[1]))


def from_compiler(command: list[str], folder: Path) -> Iterator[Found]:
    with tempfile.TemporaryDirectory() as scratch:
        command[command.index("-o") + 1] = str(Path(scratch, "kernel.o"))
        done = subprocess.run([*command, "-Xptxas", "-v"], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    architecture = kernel = ""
    for line in (done.stdout + done.stderr).splitlines():
        if match := re.search(r"Compiling entry function '(\S+)' for '(sm_\d+)'", line):
            kernel, architecture = match[1], match[2]
        elif (match := re.search(r"(\d+) bytes stack frame", line)) and kernel:
            yield Found(architecture, kernel, int(match[1]))
            kernel = ""


def resources(source: str, build: Path, cuobjdump: str, architectures: list[str]) -> list[Found]:
    command, folder = command_of(source, build)
    compiled = folder / command[command.index("-o") + 1]
    found = list(from_object(cuobjdump, compiled)) if cuobjdump != "none" and compiled.exists() else []
    if set(architectures) <= {each.architecture for each in found}:
        return found
    print(f"{source} is compiled once more")
    return list(from_compiler(command, folder))


def faults(source: str, kernel: str, found: list[Found], architectures: list[str]) -> Iterator[str]:
    mangled = f"{len(kernel)}{kernel}"
    for architecture in architectures:
        versions = [each for each in found if each.architecture == architecture and mangled in each.kernel]
        if not versions:
            yield f"{source}: no kernel {kernel} for {architecture}: correct the list"
        for each in versions:
            if each.stack_bytes > 0:
                yield f"{source}: {each.kernel} has a stack frame of {each.stack_bytes} bytes on {architecture}"


def main() -> None:
    names, build, cuobjdump = list(listed(Path(sys.argv[1]))), Path(sys.argv[2]), sys.argv[3]
    architectures = [f"sm_{re.match(r'[0-9]+', each)[0]}" for each in sys.argv[4:]]
    of_source = {source: resources(source, build, cuobjdump, architectures) for source in dict(names)}
    wrong = [fault for source, kernel in names for fault in faults(source, kernel, of_source[source], architectures)]
    print(*wrong or [f"{len(names)} kernels without a stack frame on {', '.join(architectures)}"], sep="\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
