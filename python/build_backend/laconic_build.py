"""scikit-build-core's backend, told which torch to build against: the one of the environment that asks for the build.

pip builds in an isolated environment that has no torch, and must not get one: the module fits only the torch that it was
compiled against. The interpreter that runs the build is the environment's own, though, and started with -I it sees what
is installed there. Front ends that make a whole environment for the build (python -m build) are looked through; it is
told by the build's own tools, which lie in it. Otherwise nobody else's torch will do: the package is for this one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from typing import Any, NoReturn


def _say(text: str) -> None:
    print(f"laconic: {text}", file=sys.stderr, flush=True)


def _stop(text: str) -> NoReturn:
    """Ends the build with one line; pip shows it as the whole output of the failed step."""
    _say(text)
    raise SystemExit(1)


try:
    from scikit_build_core import build as _base
    from scikit_build_core.build import *  # noqa: F403
except ModuleNotFoundError:
    _stop(
        "--no-build-isolation builds with this environment's own tools, and scikit-build-core is not among them: "
        "pip install scikit-build-core cmake ninja, then run this again, or leave --no-build-isolation out."
    )

OLDEST = (2, 7)  # wheels before it have the old C++ ABI
NAMED = "LACONIC_PYTHON_EXECUTABLE"
_ASK = """
import importlib.metadata, importlib.util, json, sysconfig
spec = importlib.util.find_spec("torch")
folder = spec.submodule_search_locations[0] if spec else ""
version = importlib.metadata.version("torch") if spec else ""
tools = importlib.util.find_spec("scikit_build_core") is not None
print(json.dumps([version, folder, sysconfig.get_config_var("EXT_SUFFIX"), tools]))
"""


def _ancestors() -> Iterator[str]:
    """The Pythons that started this build, nearest first, where the system tells."""
    process = os.getppid()
    for _ in range(10):
        folder = pathlib.Path("/proc", str(process))
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            process = int(re.search(r"^PPid:\s*(\d+)", (folder / "status").read_text(), re.M)[1])
        except (OSError, TypeError):
            return
        if pathlib.Path(os.fsdecode(words[0])).name.startswith("python") and os.path.isabs(words[0]):
            yield os.fsdecode(words[0])
        if process <= 1:
            return


def _interpreters() -> Iterator[str]:
    yield sys.executable
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if os.environ.get(variable):
            yield os.path.join(os.environ[variable], "bin", "python")
    yield from _ancestors()


def _torch_of(interpreter: str) -> tuple[str, str, str, bool] | None:
    """Version and folder of an interpreter's torch (empty: none), the ending of its modules, and whether the build's own
    tools lie in its environment. None: cannot be asked."""
    try:
        said = subprocess.run([interpreter, "-I", "-c", _ASK], capture_output=True, text=True, timeout=60, check=True)
        return tuple(json.loads(said.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _release(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _found_torch(named: str | None) -> tuple[str, str]:
    """The interpreter and the folder of its torch, or the end with what to install."""
    looked = []
    for interpreter in dict.fromkeys([named] if named else _interpreters()):
        answer = _torch_of(interpreter)
        if answer is None:
            looked.append(f"{interpreter}: cannot be started")
        elif not answer[1]:
            looked.append(f"{interpreter}: has no torch")
        elif _release(answer[0]) < OLDEST:
            looked.append(f"{interpreter}: has torch {answer[0]}, {OLDEST[0]}.{OLDEST[1]} or later is needed")
        elif answer[2] != sysconfig.get_config_var("EXT_SUFFIX"):
            looked.append(f"{interpreter}: has torch {answer[0]}, but is another Python than {sys.executable}")
        else:
            _say(f"building against torch {answer[0]} of {interpreter}")
            return interpreter, answer[1]
        if interpreter == sys.executable and answer is not None and not answer[3]:
            break
    oldest = ".".join(map(str, OLDEST))
    _stop(
        f"there is no torch to build against. Install PyTorch {oldest} or later into this environment first "
        f"(pip install torch), then run this again. {NAMED}=/path/to/python names another environment.\n"
        + "\n".join("  looked at " + line for line in looked)
    )


def _defined(settings: dict[str, Any], name: str) -> str:
    """What pip's --config-settings, or else the environment's CMAKE_ARGS, define a CMake variable as. Empty: nothing."""
    words = shlex.split(os.environ.get("CMAKE_ARGS", ""))
    pattern = re.compile(rf"(?:-D)?{re.escape(name)}(?::[A-Z]+)?=(.*)")  # -D may be a word of its own
    matches = [match for match in map(pattern.fullmatch, words) if match]
    return settings.get(f"cmake.define.{name}") or (matches[-1][1] if matches else "")


def _named_compiler(settings: dict[str, Any], language: str, variable: str) -> str:
    """The compiler that the user asks for. Empty: none."""
    return _defined(settings, f"CMAKE_{language}_COMPILER") or os.environ.get(variable, "").split(" ")[0]


def _require_compiler(settings: dict[str, Any]) -> None:
    if _defined(settings, "CMAKE_TOOLCHAIN_FILE"):
        return  # it names the compiler
    named = _named_compiler(settings, "CXX", "CXX")
    if any(shutil.which(each) for each in ([named] if named else ("c++", "g++", "clang++"))):
        return
    missing = f"{named}, which was asked for, is not there" if named else "there is none"
    _stop(
        f"a C++20 compiler is needed and {missing}. Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; "
        "conda: conda install -c conda-forge cxx-compiler. Then run this again; CXX=/path/to/compiler names another."
    )


def _require_header(interpreter: str) -> None:
    """Python.h, which Debian's python3 leaves to a package of its own."""
    ask = 'import sysconfig; print(sysconfig.get_path("include"))'
    said = subprocess.run([interpreter, "-I", "-c", ask], capture_output=True, text=True, check=True)
    header = pathlib.Path(said.stdout.strip(), "Python.h")
    if not header.exists():
        _stop(
            f"{header} is missing. Debian, Ubuntu: apt install python3-dev (or the package of that Python's version); "
            "Fedora: dnf install python3-devel. Then run this again."
        )


def _require_tools() -> None:
    """What an isolated build fetches by itself."""
    tools = {"cmake": ("cmake",), "ninja": ("ninja", "ninja-build", "make")}
    for package, programs in tools.items():
        if importlib.util.find_spec(package) is None and not any(map(shutil.which, programs)):
            _stop(f"{package} is needed and is not there: pip install {package}, then run this again.")


def _tell_of_highway(settings: dict[str, Any]) -> None:
    if _defined(settings, "LACONIC_HIGHWAY").upper() in ("OFF", "0", "FALSE", "NO"):
        return
    config = shutil.which("pkg-config")
    if config is None or subprocess.run([config, "--exists", "libhwy >= 1.0"], check=False).returncode != 0:
        _say(
            "Highway was not found, so kernels are built on the compiler's vectors, up to three times slower. For the "
            "faster ones: apt install libhwy-dev pkg-config (Fedora: dnf install highway-devel pkgconf), then build again."
        )


def _cuda_of(torch: str) -> str:
    """The version of CUDA for which the torch in that folder was built; empty: for none."""
    try:
        said = pathlib.Path(torch, "version.py").read_text()
    except OSError:
        return ""
    found = re.search(r"^cuda\b[^=\n]*=\s*['\"]([\d.]+)", said, re.M)
    return found[1] if found else ""


def _why_not(nvcc: str, host: str) -> str:
    """Why this nvcc, with that compiler of the host, cannot build the kernels; empty if it can."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "empty.cu")
        source.write_text("__global__ void empty() {}\n")
        command = [nvcc, "-std=c++20", "-c", str(source), "-o", str(source.with_suffix(".o"))]
        command += ["-ccbin", host] if host else []
        try:
            tried = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            return str(error)
    if tried.returncode == 0:
        return ""
    lines = (tried.stderr + tried.stdout).splitlines()
    telling = (line.strip() for line in lines if re.search("error|fatal", line))
    return next(telling, f"exit status {tried.returncode}")


def _nvcc(settings: dict[str, Any]) -> tuple[str, str]:
    """CUDA's compiler: the one that was asked for, or that of PATH or of the toolkit's usual folder. If there is none
    that can be used, an empty text and why."""
    named = _named_compiler(settings, "CUDA", "CUDACXX")
    host = _defined(settings, "CMAKE_CUDA_HOST_COMPILER") or os.environ.get("CUDAHOSTCXX", "")
    obstacle = f"{named}, which was asked for, is not there" if named else "nvcc was not found"
    for each in [named] if named else ["nvcc", "/usr/local/cuda/bin/nvcc"]:
        found = shutil.which(each)
        if found is None:
            continue
        reason = _why_not(found, host)
        if not reason:
            return found, ""
        obstacle = (
            f"{found} cannot build the kernels ({reason}). It must be of CUDA 12 or later, and take the C++ compiler "
            "(CUDAHOSTCXX names another)"
        )
    return "", obstacle


def _choose_cuda(settings: dict[str, Any], torch: str) -> None:
    """CUDA kernels for a torch that has CUDA, if their compiler is there."""
    version = _cuda_of(torch)
    if _defined(settings, "LACONIC_CUDA") or not version:
        return
    compiler, obstacle = _nvcc(settings)
    if obstacle:
        _say(
            f"this torch is for CUDA {version}, but {obstacle}. So gradients of models on GPUs will be compressed on "
            "the CPU. For kernels on the GPU: install CUDA's toolkit, put its nvcc on PATH or name it in CUDACXX, then "
            "build again."
        )
        return
    _say(f"building CUDA kernels with {compiler}, which takes some minutes more (-C cmake.define.LACONIC_CUDA=OFF: none)")
    settings["cmake.define.LACONIC_CUDA"] = "ON"
    settings["cmake.define.CMAKE_CUDA_COMPILER"] = compiler


def _settings(given: dict[str, Any] | None) -> dict[str, Any]:
    settings = dict(given or {})
    _require_compiler(settings)
    named = _defined(settings, NAMED) or os.environ.get(NAMED)
    interpreter, folder = _found_torch(named)
    _require_header(interpreter)
    settings[f"cmake.define.{NAMED}"] = interpreter
    settings["cmake.define.LACONIC_TORCH_PREFIX"] = folder
    return settings


def _ready(given: dict[str, Any] | None) -> dict[str, Any]:
    settings = _settings(given)
    _require_tools()
    _choose_cuda(settings, settings["cmake.define.LACONIC_TORCH_PREFIX"])
    _tell_of_highway(settings)
    return settings


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    return _base.get_requires_for_build_wheel(_settings(config_settings))  # the error comes before anything is fetched


def get_requires_for_build_editable(config_settings: dict[str, Any] | None = None) -> list[str]:
    return _base.get_requires_for_build_editable(_settings(config_settings))


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    return _base.build_wheel(wheel_directory, _ready(config_settings), metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    return _base.build_editable(wheel_directory, _ready(config_settings), metadata_directory)
