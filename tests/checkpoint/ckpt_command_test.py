"""`llmtrain ckpt` on real directories: exit codes, words, JSON."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from tests.support.main import run

GOLDEN = Path(os.environ["LLMTRAIN_SOURCE_DIR"]) / "tests/checkpoint/golden/step-00000005"


def ckpt(*arguments):
    return subprocess.run([os.environ["LLMTRAIN"], "ckpt", *map(str, arguments)], capture_output=True, text=True)


class CkptCommand(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="llmtrain test ")  # a path with a space
        self.addCleanup(self.scratch.cleanup)
        self.run_dir = Path(self.scratch.name) / "run"
        self.step = self.run_dir / "checkpoints/step-00000005"
        shutil.copytree(GOLDEN, self.step)

    def flip(self, name, at):
        path = self.step / name
        data = bytearray(path.read_bytes())
        data[at] ^= 0x10
        path.write_bytes(data)

    def test_verify_intact(self):
        for path in (self.run_dir, self.run_dir / "checkpoints", self.step):
            result = ckpt("verify", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("step-00000005: intact", result.stdout)

    def test_verify_names_file_and_offset_of_a_flipped_byte(self):
        for path in sorted(GOLDEN.iterdir()):
            for at in (0, 9, path.stat().st_size // 2, path.stat().st_size - 1):
                self.flip(path.name, at)
                result = ckpt("verify", self.run_dir)
                self.assertEqual(result.returncode, 1)
                self.assertIn(f"{path.name}: byte {at} is ", result.stdout)
                report = json.loads(ckpt("verify", "--json", self.step).stdout)[0]
                self.assertEqual([(d["file"], d["begin"]) for d in report["damages"]], [(path.name, at)])
                self.flip(path.name, at)

    def test_verify_missing_and_unlisted(self):
        (self.step / "stranger").touch()
        (self.step / "tokenizer.json").unlink()
        result = ckpt("verify", self.step)
        self.assertEqual(result.returncode, 1)
        self.assertIn("tokenizer.json: missing", result.stdout)
        self.assertIn("stranger: not listed", result.stdout)
        (self.step / "manifest.json").unlink()
        self.assertEqual(ckpt("verify", self.step).returncode, 1)

    def test_nothing_there(self):
        (self.run_dir / "empty/checkpoints").mkdir(parents=True)
        (self.run_dir / "plain").mkdir()
        for command in ("verify", "ls", "show"):
            for path in ("empty", "plain"):
                result = ckpt(command, self.run_dir / path)
                self.assertEqual(result.returncode, 65, command)
                self.assertIn("holds no", result.stderr)
            for path in ("nowhere", "checkpoints/step-00000005/tokenizer.json"):
                result = ckpt(command, self.run_dir / path)
                self.assertEqual(result.returncode, 2, command)
                self.assertIn(path, result.stderr)
        self.assertEqual(ckpt("diff", self.run_dir, self.run_dir / "nowhere").returncode, 2)
        self.assertEqual(ckpt("diff", self.run_dir, self.run_dir / "empty").returncode, 65)
        self.assertEqual(ckpt("diff", self.run_dir).returncode, 2)
        self.assertEqual(ckpt().returncode, 2)

    def test_ls(self):
        shutil.copytree(GOLDEN, self.step.with_name("step-00000012"))
        result = ckpt("ls", self.run_dir)
        self.assertEqual(result.returncode, 0)
        lines = result.stdout.splitlines()
        self.assertIn("damaged: the directory says step 12 and its manifest step 5", lines[1])
        self.assertRegex(lines[2], r"^ +5 +0 .*step-00000005 +committed$")
        rows = json.loads(ckpt("ls", "--json", self.step).stdout)
        self.assertEqual([(row["step"], row["tensors"], row["problem"]) for row in rows], [(5, 6, "")])

    def test_show(self):
        result = ckpt("show", self.run_dir)
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"(?m)^step +5$")
        self.assertRegex(result.stdout, r"(?m)^model.embed_tokens.weight +bf16 \[7, 4\]$")
        shown = json.loads(ckpt("show", "--json", self.step).stdout)
        self.assertEqual(shown["seed"], 1234)
        self.assertEqual(shown["layout"], {"pp": 1, "dp": 2, "sp": 1, "tp": 1})
        self.assertEqual(ckpt("show", "--spec", self.step).stdout, "version: 1\nrun:\n  seed: 1234\n")

    def test_diff(self):
        same = ckpt("diff", self.run_dir, GOLDEN)
        self.assertEqual((same.returncode, same.stdout.splitlines()[-1]), (0, "identical"))
        self.assertTrue(json.loads(ckpt("diff", "--json", self.run_dir, GOLDEN).stdout)["identical"])
        self.flip("weights-00001-of-00002.safetensors", -1)
        damaged = ckpt("diff", self.run_dir, GOLDEN)
        self.assertEqual(damaged.returncode, 1)
        self.assertIn("weights-00001-of-00002.safetensors: byte", damaged.stderr)


if __name__ == "__main__":
    run()
