"""The Python example of docs/CHECKPOINT_FORMAT.md reads a checkpoint, and the safetensors package agrees with
every number in it."""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

from safetensors import safe_open

from tests.support.main import run

ROOT = Path(os.environ["LLMTRAIN_SOURCE_DIR"])
GOLDEN = ROOT / "tests/checkpoint/golden/step-00000005"


def values(count, width, salt):
    """The bytes that sample_checkpoint.hpp makes."""
    return bytes((i * 31 + i // 7 + salt) & 0x3F for i in range(count * width))


class PythonReads(unittest.TestCase):
    def test_the_example_of_the_page(self):
        page = (ROOT / "docs/CHECKPOINT_FORMAT.md").read_text()
        (example,) = re.findall(r"```python\n(.*?)```", page, re.S)
        code = example + "\nfor name, tensor in tensors.items():\n    import numpy\n"
        code += "    print('bytes', name, tensor.contiguous().view(torch.uint8).numpy().tobytes().hex() if tensor.dim() else '')\n"
        output = subprocess.run([sys.executable, "-c", code, str(GOLDEN)], capture_output=True, text=True, check=True).stdout
        self.assertIn("model.embed_tokens.weight torch.bfloat16 [7, 4]", output)
        self.assertIn("momentum.model.norm.weight torch.float64 []", output)
        for name, width, salt in (("model.embed_tokens.weight", 2, 0), ("master.model.embed_tokens.weight", 4, 2),
                                  ("exp_avg.model.embed_tokens.weight", 4, 3), ("exp_avg_sq.model.embed_tokens.weight", 4, 4)):
            self.assertIn(f"bytes {name} {values(28, width, salt).hex()}", output)

    def test_the_package_sees_what_the_manifest_lists(self):
        manifest = json.loads((GOLDEN / "manifest.json").read_text())
        shards = [file for file in manifest["files"] if "tensors" in file]
        self.assertEqual(len(shards), 3)
        for file in shards:
            with safe_open(GOLDEN / file["name"], framework="pt") as shard:
                self.assertEqual(shard.metadata(), {"format": "pt"})
                self.assertEqual(len(list(shard.keys())), len(file["tensors"]))
            header = int.from_bytes((GOLDEN / file["name"]).read_bytes()[:8], "little")
            self.assertEqual((8 + header) % 64, 0)


if __name__ == "__main__":
    run()
