"""Pages show the examples as they are, and link to what exists. Needs no torch."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "python"
TRAINER = EXAMPLES / "gpt.py"
SHORT = [path for path in sorted(EXAMPLES.glob("*.py")) if path != TRAINER]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: pathlib.Path, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def anchors(page: pathlib.Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


class DocumentsTest(unittest.TestCase):
    def test_show_the_examples(self) -> None:
        minimal = (EXAMPLES / "minimal.py").read_text()
        self.assertEqual(blocks(ROOT / "README.md"), [minimal])
        self.assertEqual(blocks(ROOT / "docs" / "first-run.md"), [minimal])
        shown = blocks(ROOT / "docs" / "examples.md")
        others = [path.read_text() for path in SHORT if path.name != "minimal.py"]
        self.assertEqual(sorted(shown), sorted(others))

    def test_show_the_lines_that_a_trainer_needs(self) -> None:
        """Of gpt.py, which is a trainer like any other but for the marked lines."""
        (shown,) = blocks(ROOT / "docs" / "examples.md", "diff")
        added = [line[2:].strip() for line in shown.splitlines() if line.startswith("+ ")]
        marked = [line for line in TRAINER.read_text().splitlines() if "  # laconic" in line]
        self.assertEqual([line.split("  # laconic")[0].strip() for line in marked], added)
        rest = [line for line in TRAINER.read_text().splitlines() if line not in marked and "laconic" in line.lower()]
        self.assertEqual([line for line in rest if not line.startswith(("    torchrun", "gradient accumulation,"))], [])

    def test_examples_are_short(self) -> None:
        for path in (*SHORT, TRAINER):
            lines = path.read_text().splitlines()
            self.assertLess(len(lines), 260 if path == TRAINER else 100, path)
            self.assertLessEqual(max(map(len, lines)), 120, path)

    def test_commands_name_files_that_exist(self) -> None:
        for page in PAGES:
            for name in re.findall(r"\bexamples/[\w./-]+\.(?:py|cpp)\b", page.read_text()):
                self.assertTrue((ROOT / name).exists(), f"{page}: {name}")

    def test_no_marks_of_a_merge_are_left(self) -> None:
        for page in PAGES:
            self.assertNotRegex(page.read_text(), r"(?m)^(<<<<<<<|=======|>>>>>>>)( |$)", page)

    def test_links_lead_somewhere(self) -> None:
        for page in PAGES:
            for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", page.read_text()):
                name, _, anchor = target.partition("#")
                path = (page.parent / name).resolve() if name else page
                self.assertTrue(path.exists(), f"{page}: {target}")
                if anchor and path.suffix == ".md":
                    self.assertIn(anchor, anchors(path), f"{page}: {target}")
                if page.parent.name == "docs":  # which the site is built from
                    self.assertTrue(path.is_relative_to(ROOT / "docs"), f"{page}: {target} is not in docs")


if __name__ == "__main__":
    unittest.main()
