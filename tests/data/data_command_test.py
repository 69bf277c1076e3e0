"""`llmtrain data` on real files: exit codes, words, JSON, paths, full and read-only places."""

import json
import os
import resource
import subprocess
import tempfile
import unittest
from pathlib import Path

from tests.support.main import run

TEXT = "In the beginning God created the heaven and the earth.\n" * 300


def data(*arguments, **options):
    return subprocess.run([os.environ["LLMTRAIN"], "data", *map(str, arguments)], capture_output=True, text=True, **options)


class DataCommand(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="llmtrain test ")  # a path with a space
        self.addCleanup(scratch.cleanup)
        self.dir = Path(scratch.name)
        self.text = self.dir / "a text.txt"
        self.text.write_text(TEXT)

    def expect(self, result, code, *words):
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for word in words:
            self.assertIn(word, result.stdout + result.stderr)
        if code != 0:
            self.assertEqual(result.stdout, "")
            self.assertTrue(result.stderr.startswith("llmtrain data "), result.stderr)

    def test_text_to_tokens(self):
        tokenizer, out = self.dir / "tok", self.dir / "out"
        trained = data("train-tokenizer", self.text, "--vocab-size", 300, "--out", tokenizer, "--json")
        self.expect(trained, 0)
        vocab_size = json.loads(trained.stdout)["vocab_size"]
        self.assertEqual(json.loads((tokenizer / "tokenizer.json").read_text())["added_tokens"][0]["id"], vocab_size - 1)
        prepared = data("prepare", "--input", self.text, "--tokenizer", tokenizer, "--out", out, "--json")
        self.expect(prepared, 0)
        split = json.loads(prepared.stdout)["splits"][0]
        self.assertEqual((split["documents"], split["text_bytes"]), (1, len(TEXT)))
        self.assertEqual(sorted(path.name for path in out.iterdir()), ["tokens.bin", "tokens.idx", "tokens.json"])
        inspected = data("inspect", out, "--tokenizer", tokenizer, "--json")
        self.expect(inspected, 0)
        summary = json.loads(inspected.stdout)
        self.assertEqual(summary["tokens"], split["tokens"])
        self.assertEqual(summary["text_bytes"], len(TEXT))
        self.assertEqual(summary["eod_tokens"], 1)
        document = json.loads(data("inspect", out, "--document", 0, "--tokenizer", tokenizer, "--json").stdout)
        self.assertEqual(document["text"], TEXT + "<|endoftext|>")
        self.expect(data("inspect", out, "--document", 1), 2, "documents 0 to 0")

    def test_home_and_links(self):
        (self.dir / "link").symlink_to(self.text)
        link = self.dir / "link.txt"
        link.symlink_to(self.text)
        environment = os.environ | {"HOME": str(self.dir)}
        self.expect(data("prepare", "~/link.txt", "~/link", "--tokenizer", "bytes", "--out=~/out", env=environment), 0)
        self.assertTrue((self.dir / "out/tokens.idx").exists())
        self.expect(data("inspect", "~/out", env=environment), 0, "2 documents")

    def test_what_is_missing_or_mistyped_exits_2(self):
        out = self.dir / "out"
        missing = self.dir / "missing.txt"
        self.expect(data("prepare", missing, "--tokenizer", "bytes", "--out", out), 2, str(missing), "no such file")
        self.expect(data("prepare", self.text, "--tokenizer", self.dir / "no.json", "--out", out), 2, "no such file")
        self.expect(data("prepare", self.dir, "--tokenizer", "bytes", "--out", out), 2, "is a directory")
        self.expect(data("prepare", self.text, "--tokenizer", "bytes", "--out", self.text), 2, "is no directory")
        self.expect(data("inspect", self.dir / "nothing"), 2, "no token files there")
        self.expect(data("train-tokenizer", self.text, "--vocab-size", 12, "--out", out), 2, "258 to")
        self.assertFalse(out.exists())
        self.assertEqual(data("prepare").returncode, 2)
        self.assertEqual(data("prepare", self.text, "--tokenizer", "bytes", "--out", out, "--no-such-flag").returncode, 2)
        self.assertEqual(data().returncode, 2)

    def test_bad_data_exits_73(self):
        out = self.dir / "out"
        lines = self.dir / "a.jsonl"
        lines.write_text('{"text": "fine"}\n{"body": "x"}\n')
        self.expect(data("prepare", lines, "--tokenizer", "bytes", "--out", out), 73, f"{lines}:2: ", "no key `text`")
        (self.dir / "empty.txt").write_text("")
        self.expect(data("prepare", self.dir / "empty.txt", "--tokenizer", "bytes", "--out", out), 73, "holds no text")
        self.assertEqual(list(out.iterdir()), [])
        self.expect(data("prepare", self.text, "--tokenizer", "bytes", "--out", out), 0)
        (out / "tokens.bin").write_bytes((out / "tokens.bin").read_bytes()[:-1])
        self.expect(data("inspect", out), 73, "tokens.bin", "truncated")
        (out / "tokens.idx").write_bytes(b"hello")
        self.expect(data("inspect", out), 73, "tokens.idx: byte 0", "MMIDIDX")
        (self.dir / "bad.json").write_text("{")
        self.expect(data("prepare", self.text, "--tokenizer", self.dir / "bad.json", "--out", out), 2)

    def test_an_existing_pair_stays(self):
        out = self.dir / "out"
        self.expect(data("prepare", self.text, "--tokenizer", "bytes", "--out", out), 0)
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        self.text.write_text("something else")
        self.expect(data("prepare", self.text, "--tokenizer", "bytes", "--out", out), 2, "already", "--overwrite")
        self.assertEqual({path.name: path.read_bytes() for path in out.iterdir()}, before)
        self.expect(data("prepare", self.text, "--tokenizer", "bytes", "--out", out, "--overwrite"), 0)
        self.assertEqual((out / "tokens.bin").stat().st_size, 2 * (len("something else") + 1))

    def test_a_full_or_unwritable_place_exits_72_and_leaves_nothing(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        out = self.dir / "out"
        result = data("prepare", self.text, "--tokenizer", "bytes", "--out", out, preexec_fn=limit)
        self.expect(result, 72, "tokens.bin", "EFBIG")
        self.assertEqual(list(out.iterdir()), [])
        self.expect(data("prepare", self.text, "--tokenizer", "bytes", "--out", "/sys/llmtrain/out"), 72, "/sys/llmtrain")

    def test_notes_go_to_stderr_and_results_to_stdout(self):
        windows = self.dir / "w.txt"
        windows.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
        result = data("prepare", windows, "--tokenizer", "bytes", "--out", self.dir / "out")
        self.expect(result, 0)
        self.assertIn("byte-order mark", result.stderr)
        self.assertIn("CRLF", result.stderr)
        self.assertNotIn("note", result.stdout)
        self.assertIn("bits a byte", result.stdout)


if __name__ == "__main__":
    run()
