"""`llmtrain validate`, `--help` and the frozen command line; nothing here needs the engine."""

import json
import os
import pathlib
import re
import subprocess
import unittest

from tests.e2e.harness import LLMTRAIN, ROOT, E2eTest
from tests.support import main

SPECS = [*sorted((ROOT / "configs").glob("*.yaml")), *sorted((ROOT / "examples").glob("*.yaml"))]
GOLDEN_FLAGS = ROOT / "tests/golden/cli_flags.txt"


class Validate(E2eTest):
    def test_quickstart_prints_the_resolved_spec(self):
        result = self.expect(0, "validate", ROOT / "configs/quickstart.yaml")
        for part in ("version: 1", "vocab_size: 2048", "dp: 2", "pp: 2", "global_batch_size: "):
            self.assertIn(part, result.out)

    def test_every_spec_of_the_tree_is_valid(self):
        self.assertGreaterEqual(len(SPECS), 8)
        for spec in SPECS:
            with self.subTest(spec=spec.name):
                result = self.expect(0, "validate", spec)
                self.assertNotIn("error:", result.err)

    def test_json_is_json(self):
        result = self.expect(0, "validate", "--json", ROOT / "configs/smoke_dp2.yaml")
        self.assertIsInstance(json.loads(result.out), dict)

    def test_a_degree_that_does_not_fit_names_file_field_value_and_what_is_allowed(self):
        result = self.expect(2, "validate", ROOT / "configs/quickstart.yaml", "--set", "parallelism.tp=3")
        text = result.out + result.err
        self.assertIn("parallelism.tp", text)
        self.assertRegex(text, r"\b3\b")
        self.assertRegex(text, r"\b1\b")

    def test_a_misspelt_field_is_answered_with_its_place_and_the_right_spelling(self):
        spec = self.folder / "my job.yaml"
        spec.write_text((ROOT / "configs/smoke_dp2.yaml").read_text().replace("hidden_size: 32", "hiden_size: 32"))
        result = self.expect(2, "validate", spec)
        line = next(i for i, l in enumerate(spec.read_text().splitlines(), 1) if "hiden_size" in l)
        column = spec.read_text().splitlines()[line - 1].index("hiden_size") + 1
        text = result.out + result.err
        self.assertIn(f"{spec}:{line}:{column}", text)
        self.assertRegex(text, r"hidden_size")

    def test_every_violation_is_reported_at_once(self):
        result = self.expect(2, "validate", ROOT / "configs/smoke_dp2.yaml",
                             *self.sets("parallelism.pp=7", "model.num_heads=5", "optimizer.lr=-1"))
        for field in ("parallelism.pp", "num_heads", "optimizer.lr"):
            self.assertIn(field, result.out + result.err)

    def test_a_missing_file_is_a_usage_error_that_names_it(self):
        result = self.expect(2, "validate", "nowhere.yaml")
        self.assertIn("nowhere.yaml", result.err)


class CommandLine(E2eTest):
    def test_maps_no_libtorch(self):
        listing = subprocess.run(["ldd", LLMTRAIN], capture_output=True, text=True, check=True).stdout
        self.assertIn("libc.so", listing)
        for library in ("torch", "libc10", "nccl", "cuda"):
            self.assertNotIn(library, listing)

    def test_wrong_usage_exits_2(self):
        for words in ([], ["fly"], ["validate"], ["validate", "--fly", "x.yaml"], ["launch"], ["resume"]):
            with self.subTest(words=words):
                result = self.run_command(*words)
                self.assertEqual(result.code, 2, str(result))
                self.assertEqual(result.out, "")

    def test_help_and_version_go_to_stdout(self):
        self.assertIn("validate", self.expect(0, "--help").out)
        self.assertRegex(self.expect(0, "--version").out, r"\d+\.\d+\.\d+")

    def test_flags_are_frozen(self):
        """A new or changed flag is a decision: run with LLMTRAIN_UPDATE_GOLDENS=1 and review the diff."""
        found = "\n".join(self.walk([])) + "\n"
        if os.environ.get("LLMTRAIN_UPDATE_GOLDENS") == "1":
            GOLDEN_FLAGS.parent.mkdir(exist_ok=True)
            GOLDEN_FLAGS.write_text(found)
        self.assertEqual(found, GOLDEN_FLAGS.read_text())

    def walk(self, words):
        """`command: words it takes` of every command, depth first, as its --help shows them."""
        text = self.expect(0, *words, "--help").out
        options, commands, section = [], [], ""
        for line in text.splitlines():
            if re.match(r"^\S.*:$", line):
                section = line.rstrip(":")
            elif match := re.match(r"^  (\S.*)$", line):
                head = re.split(r"\s{2,}", match.group(1))[0]
                if section.lower() == "subcommands":
                    commands.append(head.split()[0])
                elif section and not head.startswith("-h"):
                    options.append(re.match(r"\S+( [A-Z][A-Z_=]*(?=[\s:]|$))?", head).group())
        lines = [f"llmtrain {' '.join(words)}".strip() + ": " + " | ".join(options)]
        for command in commands:
            lines += self.walk([*words, command])
        return lines


if __name__ == "__main__":
    main.run()
