"""This tree obeys the rules of rules.py, and every rule catches a planted violation."""

import os
import pathlib
import tempfile
import unittest

from tests.repo import rules
from tests.support import main

ROOT = pathlib.Path(os.environ.get("LLMTRAIN_SOURCE_DIR", pathlib.Path(__file__).parents[2]))

HEADER = "#pragma once\n\n// What it is.\nnamespace llmtrain {}\n"
CLEAN = {
    "src/CMakeLists.txt": "llmtrain_module(core LAYER 0 SOURCES a.cpp)\n"
                          "llmtrain_module(spec LAYER 1 DEPENDS core SOURCES)\n"
                          "llmtrain_module(data LAYER 1 SOURCES)\n"
                          "llmtrain_module(tensor LAYER 2 PLANE tensor DEPENDS core SOURCES)\n",
    "include/llmtrain/core/a.hpp": HEADER,
    "include/llmtrain/spec/b.hpp": HEADER.replace("// What", '#include "llmtrain/core/a.hpp"\n\n// What'),
    "include/llmtrain/tensor/t.hpp": HEADER,
    "src/core/a.cpp": '#include "llmtrain/core/a.hpp"\n',
    "cli/main.cpp": "int main() { std::cout << std::getenv(\"HOME\"); }\n",
    "cmake/Libtorch.cmake": "set(LLMTRAIN_TORCH_VERSION 9.8.7)\n",
    "README.md": "See [the map](ARCHITECTURE.md).\n",
    "ARCHITECTURE.md": "# Architecture\n",
}

# rule -> (file, what it holds then, a part of the expected message)
PLANTED = [
    (rules.layers, "include/llmtrain/core/a.hpp", '#include "llmtrain/spec/b.hpp"\n', "declares no arrow to spec"),
    (rules.layers, "src/spec/c.cpp", '#include "llmtrain/data/d.hpp"\n', "declares no arrow to data"),
    (rules.layers, "src/spec/c.cpp", "", "not listed"),
    (rules.layers, "src/core/b.cpp", "", "not listed"),
    (rules.layers, "src/stray/x.cpp", "", "not a declared module"),
    (rules.layers, "include/llmtrain/stray/x.hpp", HEADER, "not a declared module"),
    (rules.layers, "src/CMakeLists.txt", "llmtrain_module(core LAYER 0 SOURCES a.cpp)\n"
     "llmtrain_module(spec LAYER 1 DEPENDS data)\nllmtrain_module(data LAYER 1)\nllmtrain_module(tensor LAYER 2)\n",
     "does not point down"),
    (rules.layers, "src/CMakeLists.txt", "llmtrain_module(core LAYER 0 SOURCES a.cpp)\n"
     "llmtrain_module(spec LAYER 1 DEPENDS core ghost)\nllmtrain_module(tensor LAYER 2)\n", "no module"),
    (rules.planes, "src/core/a.cpp", "#include <ATen/core/Tensor.h>\n", "includes ATen/core/Tensor.h"),
    (rules.planes, "src/core/a.cpp", "#include <c10/core/Device.h>\n", "includes c10/core/Device.h"),
    (rules.planes, "cli/main.cpp", "#include <torch/version.h>\n", "includes torch/version.h"),
    (rules.planes, "cli/main.cpp", '#include "llmtrain/tensor/t.hpp"\n', "of the tensor plane"),
    (rules.header_style, "include/llmtrain/core/a.hpp", "\n" + HEADER, "not #pragma once"),
    (rules.header_style, "include/llmtrain/core/a.hpp", "#pragma once\nnamespace llmtrain {}\n", "no comment"),
    (rules.header_style, "include/llmtrain/core/a.hpp", HEADER + "#include <nlohmann/json.hpp>\n", "nlohmann/json.hpp"),
    (rules.header_style, "include/llmtrain/core/a.hpp", HEADER + '#include "b.hpp"\n', "not reached through llmtrain/"),
    (rules.broad_includes, "src/core/a.cpp", "#include <torch/torch.h>\n", "umbrella"),
    (rules.environment, "src/core/a.cpp", 'auto home = std::getenv("HOME");\n', "environment"),
    (rules.environment, "include/llmtrain/core/a.hpp", "// calls getenv(name)\n", "environment"),
    (rules.using_namespace, "include/llmtrain/core/a.hpp", "  using namespace std;\n", "using namespace"),
    (rules.standard_output, "src/core/a.cpp", "std::cout << 1;\n", "standard output"),
    (rules.standard_output, "src/core/a.cpp", 'printf("1");\n', "standard output"),
    (rules.leftovers, "src/core/a.cpp", "// TODO: later\n", "leftover"),
    (rules.leftovers, "scripts/a.sh", "# FIXME\n", "leftover"),
    (rules.file_lengths, "src/core/a.cpp", "\n" * 1000, None),  # one long file is allowed
    (rules.torch_version, "scripts/setup.sh", "pip install torch==9.8.7\n", "second time"),
    (rules.torch_version, "cmake/Libtorch.cmake", "", "no LLMTRAIN_TORCH_VERSION"),
    (rules.links, "README.md", "[x](docs/NOWHERE.md)\n", "broken link docs/NOWHERE.md"),
    (rules.architecture_length, "ARCHITECTURE.md", "x\n" * 301, "301 lines"),
]


def plant(folder, tree):
    for name, text in tree.items():
        path = pathlib.Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return pathlib.Path(folder)


class ThisTree(unittest.TestCase):
    def test_obeys_every_rule(self):
        for rule in rules.ALL:
            with self.subTest(rule=rule.__name__):
                violations = rule(ROOT)
                self.assertEqual(violations, [], "\n".join(["", *violations]))

    def test_has_modules_to_check(self):
        self.assertGreaterEqual(len(rules.modules_of(ROOT)), 15)

    def test_scripts_can_be_executed(self):
        for path in [*ROOT.glob("scripts/*.sh"), ROOT / ".ci/run"]:
            self.assertTrue(os.access(path, os.X_OK), path)

    def test_names_its_licence(self):
        self.assertIn("Apache License", (ROOT / "LICENSE").read_text())
        self.assertIn("Apache-2.0", (ROOT / "README.md").read_text())


class PlantedViolations(unittest.TestCase):
    def test_a_clean_tree_passes(self):
        with tempfile.TemporaryDirectory() as folder:
            root = plant(folder, CLEAN)
            for rule in rules.ALL:
                self.assertEqual(rule(root), [], rule.__name__)

    def test_each_is_found(self):
        for rule, name, text, expected in PLANTED:
            with self.subTest(rule=rule.__name__, file=name, text=text), tempfile.TemporaryDirectory() as folder:
                violations = rule(plant(folder, {**CLEAN, name: text}))
                if expected is None:
                    self.assertEqual(violations, [])
                else:
                    self.assertIn(expected, "\n".join(violations))

    def test_too_many_long_files_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = plant(folder, {**CLEAN, **{f"src/core/long{i}.cpp": "\n" * 401 for i in range(3)}})
            self.assertIn("over 400 lines", rules.file_lengths(root)[-1])

    def test_a_long_median_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = plant(folder, {**CLEAN, **{f"src/core/middling{i}.cpp": "\n" * 141 for i in range(20)}})
            self.assertIn("median", rules.file_lengths(root)[0])


if __name__ == "__main__":
    main.run()
