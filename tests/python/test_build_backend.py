"""The build's backend finds the compiler that pip's user names, before anything is compiled."""

import contextlib
import importlib.util
import io
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

SOURCE = pathlib.Path(__file__).parents[2] / "python" / "build_backend" / "laconic_build.py"


def backend() -> types.ModuleType:
    """The module, with nothing behind it: what is tested here comes before scikit-build-core is called."""
    stand_ins = {name: types.ModuleType(name) for name in ("scikit_build_core", "scikit_build_core.build")}
    stand_ins["scikit_build_core"].build = stand_ins["scikit_build_core.build"]  # type: ignore[attr-defined]
    with mock.patch.dict(sys.modules, stand_ins):
        spec = importlib.util.spec_from_file_location("laconic_build", SOURCE)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def refusal(environment: dict[str, str], settings: dict[str, str]) -> str:
    """What the check of the compiler prints before it ends the build; empty if it does not."""
    printed = io.StringIO()
    with mock.patch.dict(os.environ, environment), contextlib.redirect_stderr(printed):
        for name in {"CXX", "CMAKE_ARGS"} - set(environment):
            os.environ.pop(name, None)
        with contextlib.suppress(SystemExit):
            backend()._require_compiler(settings)
    return printed.getvalue()


class CompilerTest(unittest.TestCase):
    def test_a_compiler_that_is_there(self) -> None:
        here = sys.executable  # any program will do: it is not started
        define = {"cmake.define.CMAKE_CXX_COMPILER": here}
        for environment, settings in (
            ({"PATH": "", "CXX": here}, {}),
            ({"PATH": ""}, define),
            ({"PATH": "", "CMAKE_ARGS": f"-GNinja -DCMAKE_CXX_COMPILER={here}"}, {}),
            ({"PATH": "", "CMAKE_ARGS": f"-D CMAKE_CXX_COMPILER:FILEPATH='{here}'"}, {}),
            ({"PATH": "", "CMAKE_ARGS": "-DCMAKE_TOOLCHAIN_FILE=cross.cmake"}, {}),
            ({"PATH": "", "CXX": "/gone", "CMAKE_ARGS": "-DCMAKE_CXX_COMPILER=/gone"}, define),
        ):
            with self.subTest(environment=environment, settings=settings):
                self.assertEqual(refusal(environment, settings), "")

    def test_a_compiler_that_is_not_there(self) -> None:
        self.assertIn("a C++20 compiler is needed and there is none", refusal({"PATH": ""}, {}))
        for environment in ({"CXX": "/gone/c++"}, {"CMAKE_ARGS": "-DCMAKE_CXX_COMPILER=/gone/c++"}):
            self.assertIn("needed and /gone/c++, which was asked for, is not there", refusal(environment, {}))


class CudaTest(unittest.TestCase):
    def chosen(self, version: str, nvcc: str, settings: dict[str, str]) -> tuple[dict[str, str], str]:
        """The settings and what is said, with a torch whose version.py has that line."""
        printed = io.StringIO()
        with tempfile.TemporaryDirectory() as torch, mock.patch.dict(os.environ, {"CUDACXX": nvcc, "CMAKE_ARGS": ""}):
            pathlib.Path(torch, "version.py").write_text(f"__version__ = '2.13.0'\n{version}\nhip: str = '7'\n")
            given = dict(settings)
            with contextlib.redirect_stderr(printed):
                backend()._choose_cuda(given, torch)
        return given, printed.getvalue()

    def compiler(self, script: str, name: str = "compiler") -> str:
        """A program that stands in for nvcc."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, name)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    def test_kernels_are_built_for_a_torch_that_has_cuda(self) -> None:
        here = self.compiler('[ "$1" = -std=c++20 ]')
        for version in ("cuda: Optional[str] = '13.0'", "cuda = '12.8'"):
            given, said = self.chosen(version, here, {})
            self.assertEqual(given, {"cmake.define.LACONIC_CUDA": "ON", "cmake.define.CMAKE_CUDA_COMPILER": here})
            self.assertIn(f"building CUDA kernels with {here}", said)

    def test_nvcc_is_looked_for_on_path(self) -> None:
        here = self.compiler("exit 0", "nvcc")
        path = os.pathsep.join((str(pathlib.Path(here).parent), os.environ["PATH"]))
        with mock.patch.dict(os.environ, {"PATH": path}):
            given, said = self.chosen("cuda = '12.8'", "", {})
        self.assertEqual(given.get("cmake.define.CMAKE_CUDA_COMPILER"), here, said)

    def test_an_nvcc_that_cannot_build_them_is_left_alone(self) -> None:
        old = self.compiler("echo \"nvcc fatal: Value 'c++20' is not defined for option 'std'\" >&2; exit 1")
        silent = self.compiler("exit 3")
        no_program = self.compiler("")
        pathlib.Path(no_program).write_text("not a program")
        host = self.compiler("(echo 'In file included from x.h:82,'; echo 'error: unsupported GNU') >&2; exit 1")
        for nvcc, reason in (
            (old, "(nvcc fatal: Value 'c++20' is not defined"),
            (silent, "(exit status 3)"),
            (no_program, "format"),
            (host, "(error: unsupported GNU)"),
        ):
            given, said = self.chosen("cuda = '12.8'", nvcc, {})
            self.assertEqual(given, {})
            self.assertIn(f"{nvcc} cannot build the kernels", said)
            self.assertIn(reason, said)
            self.assertIn("CUDA 12 or later, and take the C++ compiler (CUDAHOSTCXX names another). So gradients", said)

    def test_the_first_nvcc_that_can_build_them_is_taken(self) -> None:
        old, new = self.compiler("exit 1"), self.compiler("exit 0")
        with mock.patch("shutil.which", side_effect=lambda name: old if name.startswith("/usr/local") else new):
            self.assertEqual(backend()._nvcc({}), (new, ""))
        with mock.patch("shutil.which", side_effect=lambda name: new if name.startswith("/usr/local") else old):
            self.assertEqual(backend()._nvcc({}), (new, ""))

    def test_it_is_tried_with_the_compiler_of_the_host_that_the_build_takes(self) -> None:
        picky = self.compiler('case "$*" in *"-ccbin /other/g++") exit 0 ;; esac; exit 1')
        for environment, settings in (
            ({"CUDAHOSTCXX": "/other/g++"}, {}),
            ({}, {"cmake.define.CMAKE_CUDA_HOST_COMPILER": "/other/g++"}),
        ):
            with mock.patch.dict(os.environ, environment):
                given, said = self.chosen("cuda = '12.8'", picky, settings)
            self.assertEqual(given.get("cmake.define.LACONIC_CUDA"), "ON", said)

    def test_kernels_are_left_out(self) -> None:
        here = self.compiler("exit 0")
        self.assertEqual(self.chosen("cuda: Optional[str] = None", here, {}), ({}, ""))
        self.assertEqual(self.chosen("", here, {}), ({}, ""))
        off = {"cmake.define.LACONIC_CUDA": "OFF"}
        self.assertEqual(self.chosen("cuda = '12.8'", here, off), (off, ""))
        given, said = self.chosen("cuda = '12.8'", "/gone/nvcc", {})
        self.assertEqual(given, {})
        self.assertIn("this torch is for CUDA 12.8, but /gone/nvcc, which was asked for, is not there.", said)
        with mock.patch("shutil.which", return_value=None):
            given, said = self.chosen("cuda = '12.8'", "", {})
        self.assertEqual(given, {})
        self.assertIn("this torch is for CUDA 12.8, but nvcc was not found.", said)


if __name__ == "__main__":
    unittest.main()
