"""The package can be imported, tells what it has, and ranks of the tests reach each other."""

import ast
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest
import warnings

import torch
import torch.distributed as dist
from limits import few_bytes
from ranks import Rank, run_ranks, start_ranks

import laconic


def sum_of_ranks(factor: float) -> float:
    value = torch.tensor([dist.get_rank() * factor])
    dist.all_reduce(value)
    return value.item()


def fail_on_one() -> None:
    print("speaking from", dist.get_rank())
    if dist.get_rank() == 1:
        raise ValueError("rank 1 cannot")


def without_memory() -> str:
    """What saving the state of 40 million parameters says where there is no memory for it."""
    model = torch.nn.Linear(5000, 8000, bias=False)
    made = laconic.Optimizer(torch.optim.SGD(model.parameters(), lr=0.1), model, "topk", keep=0.01)
    with few_bytes(40 << 20):
        try:
            made.state_dict()
        except MemoryError as error:
            return str(error)
    return "nothing"


def told(body: list[ast.stmt]) -> set[str]:
    """Public names that a stub declares."""
    functions = {each.name for each in body if isinstance(each, (ast.FunctionDef, ast.ClassDef))}
    values = {each.target.id for each in body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)}
    return {name for name in functions | values if not name.startswith("_")}


def public(thing: object) -> set[str]:
    return {name for name in vars(thing) if not name.startswith("_")}


class PackageTest(unittest.TestCase):
    def test_has_a_version_and_the_table_of_methods(self) -> None:
        self.assertRegex(laconic.__version__, r"^\d+\.\d+\.\d+$")
        rows = {row["name"]: row for row in laconic.methods()}
        self.assertEqual(len(rows), 25)
        self.assertEqual(rows["topk"]["face"], "gradient")
        self.assertEqual(rows["def-a"]["face"], "model")
        self.assertIn("keep", [parameter["name"] for parameter in rows["regtopk"]["parameters"]])
        self.assertEqual([name for name, row in rows.items() if row["is_sgd"]], ["ef-rbgs", "def", "def-a"])
        own_models = ["psync", "mgrawa", "lgrawa", "easgd", "lsgd", "localsgd"]
        self.assertEqual([name for name, row in rows.items() if not row["steps_alike"]], own_models)
        self.assertEqual([name for name, row in rows.items() if row["takes_scoring"]], ["mgrawa", "lgrawa"])
        self.assertEqual([name for name, row in rows.items() if row["needs_loss"]], ["lsgd"])
        self.assertEqual({name: row["optimizer"] for name, row in rows.items() if row["optimizer"]}, {"adam": "adam"})
        # With messages and scratch it is more than what is kept between steps, and no other field says so much.
        self.assertEqual([name for name, row in rows.items() if row["device_memory_bytes"] <= row["memory_bytes"]], [])
        for row in rows.values():
            self.assertEqual(set(row), set(laconic._settings.Method.__annotations__))
        self.assertEqual({name: row["min_size"] for name, row in rows.items() if row["min_size"]}, {"qsgd": 10_000})

    def test_it_alone_can_be_imported(self) -> None:
        # Whatever comes first, torch loads its libraries itself, before the module that is linked with them.
        for first in ("laconic", "laconic._core", "laconic.checkpoint"):
            program = f"import sys, {first}; print([n for n in sys.modules if n in ('torch', 'laconic._core')])"
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, "['torch', 'laconic._core']\n"), done.stderr)

    def test_stubs_tell_what_is_there(self) -> None:
        stub = pathlib.Path(laconic.__file__).with_name("_core.pyi")
        tree = ast.parse(stub.read_text())
        self.assertEqual(told(tree.body), public(laconic._core))
        for each in tree.body:
            if isinstance(each, ast.ClassDef):
                self.assertEqual(told(each.body), public(getattr(laconic._core, each.name)), each.name)

    def test_errors_are_pythons_kinds(self) -> None:
        self.assertTrue(issubclass(laconic.InvalidConfig, ValueError))
        self.assertTrue(issubclass(laconic.TransportError, RuntimeError))

    def test_no_memory_is_told_in_words(self) -> None:
        (said,) = run_ranks(1, without_memory)
        self.assertRegex(said, "^not enough memory: run fewer ranks on this machine")


class LibrariesTest(unittest.TestCase):
    def test_the_module_needs_no_library_that_torch_does_not_load(self) -> None:
        program = """
import torch, torch.distributed
def mapped():
    paths = (line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if len(line.split(None, 5)) == 6)
    return {path for path in paths if ".so" in path}
before = mapped()
import laconic
print(sorted(path.rsplit("/", 1)[1].split(".")[0] for path in mapped() - before if "/laconic/_core" not in path))
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "[]\n"), done.stderr)

    def test_a_missing_library_is_told_as_that(self) -> None:
        compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
        if compiler is None:
            self.skipTest("no C++ compiler")
        said = {library: self._import_without(compiler, library) for library in ("libhwy.so.999", "libc10_gone.so")}
        self.assertIn("needs the library libhwy.so.999, which this system does not have", said["libhwy.so.999"])
        self.assertIn("apt install libhwy1", said["libhwy.so.999"])
        self.assertNotIn("build it again with this torch", said["libhwy.so.999"])
        self.assertIn("build it again with this torch", said["libc10_gone.so"])

    def _import_without(self, compiler: str, library: str) -> str:
        """What `import laconic` says last where the module was linked with a library that is gone."""
        package = pathlib.Path(laconic.__file__).parent
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name, "laconic")
            folder.mkdir()
            for file in package.glob("*.py"):
                shutil.copy(file, folder)
            empty = pathlib.Path(name, "empty.cpp")
            empty.write_text("extern \"C\" int laconic_stub() { return 0; }\n")
            gone = pathlib.Path(name, library)
            make = [compiler, "-shared", "-fPIC", str(empty), "-o"]
            subprocess.run([*make, str(gone), f"-Wl,-soname,{library}"], check=True)
            module = folder / ("_core" + str(sysconfig.get_config_var("EXT_SUFFIX")))
            subprocess.run([*make, str(module), "-Wl,--no-as-needed", str(gone)], check=True)
            gone.unlink()
            environment = {**os.environ, "PYTHONPATH": name}
            done = subprocess.run(
                [sys.executable, "-c", "import laconic"], capture_output=True, text=True, env=environment, check=False
            )
            self.assertEqual(done.returncode, 1, done.stdout)
            return done.stderr.strip().splitlines()[-1]


def warnings_of(level: str) -> list[str]:
    """What two attached models warn of, at a SIMD level."""
    os.environ["LACONIC_SIMD"] = level
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
            laconic.attach(ddp, "topk", keep=0.5).close()
    return [str(each.message) for each in caught if issubclass(each.category, RuntimeWarning)]


class SimdTest(unittest.TestCase):
    def test_tells_its_level_and_whose_vectors_it_has(self) -> None:
        self.assertRegex(laconic.simd(), r"^\w+, vectors: (none|compiler|Highway)$")

    def test_without_simd_it_says_so_once(self) -> None:
        (said,) = run_ranks(1, warnings_of, "reference")[0]
        self.assertIn("laconic runs without SIMD, several times slower: LACONIC_SIMD=reference is set", said)

    def test_with_simd_it_says_nothing(self) -> None:
        self.assertEqual(run_ranks(1, warnings_of, ""), [[]])


class RanksTest(unittest.TestCase):
    def test_ranks_reach_each_other(self) -> None:
        self.assertEqual(run_ranks(3, sum_of_ranks, 2.0), [6.0, 6.0, 6.0])

    def test_a_failing_rank_is_told(self) -> None:
        ranks: list[Rank] = start_ranks(2, fail_on_one)
        self.assertEqual([rank.status for rank in ranks], [0, 1])
        self.assertIn("rank 1 cannot", ranks[1].output)
        self.assertIn("speaking from 0", ranks[0].output)
        with self.assertRaisesRegex(AssertionError, "rank 1 cannot"):
            run_ranks(2, fail_on_one)


if __name__ == "__main__":
    unittest.main()
