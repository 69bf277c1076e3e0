"""The engine libraries, as the executable opens them: what they export and what they need."""

import os
import pathlib
import re
import subprocess
import unittest

from tests.support import main

ROOT = pathlib.Path(os.environ["LLMTRAIN_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["LLMTRAIN_BINARY_DIR"])
ENGINES = sorted(BUILD.glob("libllmtrain_engine_*.so"))


def words_of(tool, *options):
    return subprocess.run([tool, *options], capture_output=True, text=True, check=True, timeout=60).stdout


class Engines(unittest.TestCase):
    def test_each_loads_and_speaks_the_version_of_the_tree(self):
        header = (ROOT / "include/llmtrain/job/engine_abi.hpp").read_text()
        version = int(re.search(r"kEngineAbi = (\d+)", header).group(1))
        for engine in ENGINES:
            with self.subTest(engine=engine.name):
                # A process of its own each: two copies of libtorch do not live in one.
                code = f"import ctypes; print(ctypes.CDLL({str(engine)!r}).llmtrain_engine_abi())"
                self.assertEqual(int(words_of("python3", "-c", code)), version)

    def test_two_functions_are_exported_and_nothing_else_of_ours(self):
        for engine in ENGINES:
            with self.subTest(engine=engine.name):
                defined = [line.split()[-1] for line in words_of("nm", "-D", "--defined-only", engine).splitlines()]
                functions = {name for name in defined if name.startswith("llmtrain")}
                self.assertEqual(functions, {"llmtrain_engine_abi", "llmtrain_engine_run"})
                self.assertEqual([n for n in defined if "8llmtrain" in n and "_ZN8llmtrain" in n], [])

    def test_the_cpu_engine_needs_no_cuda_library_of_torch(self):
        needed = words_of("objdump", "-p", BUILD / "libllmtrain_engine_cpu.so")
        needed = re.findall(r"NEEDED\s+(\S+)", needed)
        self.assertIn("libtorch_cpu.so", needed)
        self.assertEqual([n for n in needed if "cuda" in n or "nccl" in n or n == "libtorch.so"], [])


if __name__ == "__main__":
    main.run()
