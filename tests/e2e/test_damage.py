"""Damaged checkpoints are named and passed over, whichever of their bytes is wrong."""

import random
import shutil
import unittest

from tests.e2e.harness import E2eTest, RunDir
from tests.support import main

STEP_15 = "train.duration=15 steps"


def flip(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x40
    path.write_bytes(data)


class Damage(E2eTest):
    def setUp(self):
        super().setUp()
        self.whole, _ = self.launch("whole")

    def damaged(self, name, change):
        """A copy of the run with `change` applied to its newest checkpoint's folder."""
        run = RunDir(self.folder / name)
        shutil.copytree(self.whole.path, run.path, symlinks=True)
        change(run.checkpoints()[-1])
        return run

    def test_one_flipped_byte_in_any_file_is_found_and_named(self):
        names = [p.name for p in self.whole.checkpoints()[-1].iterdir()]
        self.assertGreaterEqual(len(names), 2)
        rng = random.Random(7)
        for name in names:
            size = (self.whole.checkpoints()[-1] / name).stat().st_size
            for offset in {0, size - 1, rng.randrange(size)}:
                with self.subTest(file=name, offset=offset):
                    run = self.damaged(f"flipped-{name}-{offset}", lambda step: flip(step / name, offset))
                    result = self.expect(1, "ckpt", "verify", run.path)
                    self.assertIn(name, result.out + result.err)
                    if name.endswith(".safetensors"):
                        self.assertRegex(result.out + result.err, r"(offset|byte)s? \d+")

    def check_falls_back(self, run):
        """The run's last step is repeated from step 15 and comes out the same."""
        result = self.resume(run)
        self.assertIn("step-00000020", result.err + result.out)
        self.assertTrue(run.events("checkpoint_rejected"), "the rejection is an event")
        self.assertEqual(run.events("checkpoint_loaded")[-1]["step"], 15)
        self.assertEqual(run.last_step(), 20)
        self.assertEqual(run.losses(), self.whole.losses())

    def test_resume_falls_back_to_the_previous_checkpoint_and_says_so(self):
        shard = next(p.name for p in self.whole.checkpoints()[-1].glob("*.safetensors"))
        run = self.damaged("flipped", lambda step: flip(step / shard, (step / shard).stat().st_size // 2))
        self.check_falls_back(run)

    def test_a_missing_or_truncated_or_extra_file_is_damage(self):
        shard = next(p.name for p in self.whole.checkpoints()[-1].glob("*.safetensors"))
        changes = {
            "missing": lambda step: (step / shard).unlink(),
            "truncated": lambda step: (step / shard).write_bytes((step / shard).read_bytes()[:-1]),
            "empty": lambda step: (step / shard).write_bytes(b""),
            "extra": lambda step: (step / "stray.bin").write_bytes(b"x"),
            "manifest-cut": lambda step: (step / "manifest.json").write_bytes((step / "manifest.json").read_bytes()[:100]),
        }
        for name, change in changes.items():
            with self.subTest(damage=name):
                run = self.damaged(name, change)
                self.expect(1, "ckpt", "verify", run.path)
                self.check_falls_back(run)

    def test_nothing_usable_is_65_and_harms_nothing(self):
        run = RunDir(self.folder / "all-bad")
        shutil.copytree(self.whole.path, run.path)
        for step in run.checkpoints():
            flip(step / "manifest.json", 10)
        before = sorted((p, p.read_bytes()) for p in (run.path / "checkpoints").rglob("*") if p.is_file())
        self.expect(65, "resume", run.path)
        after = sorted((p, p.read_bytes()) for p in (run.path / "checkpoints").rglob("*") if p.is_file())
        self.assertEqual(before, after)

    def test_nothing_there_is_65(self):
        (self.folder / "empty").mkdir()
        self.expect(65, "ckpt", "verify", "empty")

    def test_safetensors_readers_can_read_a_shard(self):
        """The header by the published format: length, JSON, data; every tensor inside the file."""
        import json
        import struct
        for shard in self.whole.checkpoints()[-1].glob("*.safetensors"):
            data = shard.read_bytes()
            (length,) = struct.unpack("<Q", data[:8])
            header = json.loads(data[8 : 8 + length])
            tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
            self.assertTrue(tensors)
            ends = [entry["data_offsets"][1] for entry in tensors.values()]
            self.assertEqual(max(ends), len(data) - 8 - length)


if __name__ == "__main__":
    main.run()
