"""A rank is killed under torchrun, which starts all anew: the run ends as one that nobody disturbed."""

import pathlib
import re
import tempfile
import unittest

from ranks import run_torchrun


class RestartTest(unittest.TestCase):
    def test_a_killed_run_ends_as_an_undisturbed_one(self) -> None:
        script = pathlib.Path(__file__).with_name("resuming_run.py")
        with tempfile.TemporaryDirectory() as folder:
            quiet = run_torchrun(2, script, f"{folder}/quiet")
            killed = run_torchrun(2, script, f"{folder}/killed", "--kill-at", "7", restarts=1)
        ends = [re.findall(r"^end (\w+)$", text, re.MULTILINE) for text in (quiet, killed)]
        self.assertEqual(len(ends[0]), 2, quiet)
        self.assertEqual(len(ends[1]), 2, killed)
        self.assertEqual(len(set(ends[0] + ends[1])), 1, quiet + killed)
        self.assertIn("resumed at step 6", killed)


if __name__ == "__main__":
    unittest.main()
