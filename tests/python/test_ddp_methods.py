"""Every gradient method, with every option, by both ways in, gives the bits of the C++ method on the same gradients."""

import unittest

import torch.distributed as dist
from probe import SIZES, Probe, connect, gradients, names_of, reference, same_bits, same_everywhere, step_of, wrapped
from ranks import run_ranks
from variations import (
    CONFLICTS,
    NUMBERS,
    REFUSED,
    Options,
    gradient_methods,
    is_rank_order,
    is_refused,
    parameters_of,
    variations,
    words_of,
)

import laconic

STEPS = 3  # the first in DDP's first buckets, the others in the hook's order


def differing_steps(method: str, options: Options, way: str) -> list[str]:
    """Of a hook and the method alone."""
    given = [[gradients(step, rank) for step in range(STEPS)] for rank in range(dist.get_world_size())]
    expected = reference(method, options, given, names=names_of(SIZES))
    ddp = wrapped(Probe())
    connect(ddp, way, method, min_size=0, **options)
    wrong = []
    for step in range(STEPS):
        found = step_of(ddp, given[dist.get_rank()][step])
        if is_rank_order(options):
            same = all(map(same_bits, found, expected[step]))
        else:
            close = all((a - b).abs().max() <= 1e-6 for a, b in zip(found, expected[step], strict=True))
            same = close and same_everywhere(found)
        if not same:
            wrong.append(f"{method} {options} by {way}, step {step}")
    return wrong


def compare_all(methods: list[str]) -> list[str]:
    return [
        each
        for method in methods
        for options in variations(method)
        for way in ("attach", "hook")
        for each in differing_steps(method, options, way)
    ]


class TableTest(unittest.TestCase):
    """Nothing of the table is left out."""

    def test_every_method_is_compared_or_refused(self) -> None:
        rows = {row["name"]: row["face"] for row in laconic.methods()}
        compared = {name for name, face in rows.items() if face != "model"} - set(REFUSED)
        self.assertEqual(set(gradient_methods()), compared)
        self.assertGreaterEqual(len(compared), 11)
        for name in REFUSED:  # which test_ddp_settings sees refused
            self.assertEqual(rows[name], "gradient")

    def test_every_option_is_tried(self) -> None:
        for method in gradient_methods():
            tried = variations(method)
            for parameter in parameters_of(method):
                name, default = parameter["name"], parameter["default"]
                values = {str(options[name]) for options in tried if name in options}
                wanted = {word for word in words_of(parameter) if not is_refused({name: word})}
                self.assertLessEqual(wanted - {default}, values, (method, name))
                self.assertTrue(wanted or values, (method, name))
        unknown = set(NUMBERS) - {each["name"] for method in gradient_methods() for each in parameters_of(method)}
        self.assertEqual(unknown, set())

    def test_what_is_left_out_is_refused(self) -> None:
        for conflict in CONFLICTS:
            having = [m for m in gradient_methods() if knows(m, conflict)]
            self.assertTrue(having, conflict)
            for method in having:
                with self.assertRaises(laconic.InvalidConfig) as refusal:
                    reference(method, conflict, [[gradients(0, 0)]])
                for name in conflict:
                    self.assertIn(name, str(refusal.exception))


def knows(method: str, options: Options) -> bool:
    """Whether the method has the options, and each word is one of its own."""
    words = {each["name"]: words_of(each) for each in parameters_of(method)}
    return all(word in words.get(name, []) for name, word in options.items())


class MethodsTest(unittest.TestCase):
    def compare(self, ranks: int) -> None:
        self.assertEqual(run_ranks(ranks, compare_all, gradient_methods(), timeout=250), [[]] * ranks)

    def test_2_ranks(self) -> None:
        self.compare(2)

    def test_3_ranks(self) -> None:
        self.compare(3)

    def test_4_ranks(self) -> None:
        self.compare(4)


if __name__ == "__main__":
    unittest.main()
