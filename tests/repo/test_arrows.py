"""A wrong arrow between modules stops the configure step and says which one."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from tests.support import main

ROOT = pathlib.Path(os.environ["LLMTRAIN_SOURCE_DIR"])


def configure(declarations):
    with tempfile.TemporaryDirectory() as folder:
        text = (
            "cmake_minimum_required(VERSION 3.25)\nproject(arrows LANGUAGES NONE)\nset(LLMTRAIN_WITH_ENGINE ON)\n"
            f'include("{ROOT}/cmake/LlmtrainModule.cmake")\n{declarations}\n'
        )
        (pathlib.Path(folder) / "CMakeLists.txt").write_text(text)
        done = subprocess.run(["cmake", "-S", folder, "-B", f"{folder}/b"], capture_output=True, text=True, timeout=60)
        return done.returncode, " ".join(done.stderr.split())


class Arrows(unittest.TestCase):
    def test_downwards_is_accepted(self):
        code, text = configure("llmtrain_module(core LAYER 0)\nllmtrain_module(spec LAYER 1 DEPENDS core)")
        self.assertEqual(code, 0, text)

    def check_refused(self, declarations, expected):
        code, text = configure(declarations)
        self.assertNotEqual(code, 0)
        self.assertIn(expected, text)

    def test_upwards_is_refused(self):
        self.check_refused("llmtrain_module(data LAYER 1)\nllmtrain_module(core LAYER 0 DEPENDS data)",
                           "core (layer 0) may not depend on data (layer 1)")

    def test_sideways_is_refused(self):
        self.check_refused("llmtrain_module(data LAYER 1)\nllmtrain_module(spec LAYER 1 DEPENDS data)",
                           "spec (layer 1) may not depend on data (layer 1)")

    def test_from_the_plain_plane_to_the_tensor_plane_is_refused(self):
        self.check_refused("llmtrain_module(tensor LAYER 2 PLANE tensor)\nllmtrain_module(launch LAYER 4 DEPENDS tensor)",
                           "launch (plain plane) may not depend on tensor (tensor plane)")

    def test_to_an_undeclared_module_is_refused(self):
        self.check_refused("llmtrain_module(spec LAYER 1 DEPENDS ghost)", "ghost, which is not declared above it")

    def test_a_misspelt_word_is_refused(self):
        self.check_refused("llmtrain_module(spec LAYER 1 DEPEND core)", "unknown words")


if __name__ == "__main__":
    main.run()
