"""scripts/setup.sh and scripts/check_venv.py on made-up environments: nothing is downloaded."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from tests.support import main

ROOT = pathlib.Path(os.environ["LLMTRAIN_SOURCE_DIR"])
VERSION = "9.8.7"


class Environment(unittest.TestCase):
    """A virtual environment with packages of a few bytes, in a path with a space."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="llmtrain setup "))
        self.addCleanup(shutil.rmtree, self.folder)
        self.venv = self.folder / ".venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.venv], check=True, timeout=60)
        (self.site,) = self.venv.glob("lib/python3*/site-packages")

    def install(self, name, version, files):
        record = [f"{name}-{version}.dist-info/METADATA,,", f"{name}-{version}.dist-info/RECORD,,"]
        info = self.site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        for file, text in files.items():
            (self.site / file).parent.mkdir(parents=True, exist_ok=True)
            (self.site / file).write_text(text)
            record.append(f"{file},sha256=x,{len(text)}")
        (info / "RECORD").write_text("\n".join(record) + "\n")

    def install_everything(self, torch=VERSION):
        self.install("torch", torch, {"torch/lib/libtorch_cpu.so": "x" * 10, "torch/version.py": "1"})
        self.install("nvidia_cuda_runtime", "13.0.1", {"nvidia/a": "a"})
        self.install("nvidia_cuda_cupti", "13.0.2", {"nvidia/b": "b"})

    def check(self, profile="cpu"):
        words = [self.venv / "bin/python", ROOT / "scripts/check_venv.py", profile, VERSION]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout


class CheckVenv(Environment):
    def test_a_complete_one_passes(self):
        self.install_everything()
        self.assertEqual(self.check(), (0, ""))
        self.assertEqual(self.check("sound"), (0, ""))

    def check_refused(self, expected, profile="cpu"):
        code, text = self.check(profile)
        self.assertEqual(code, 1)
        self.assertIn(expected, text)

    def test_an_empty_one_lacks_torch(self):
        self.check_refused("torch is not installed")

    def test_a_missing_companion_is_named(self):
        self.install("torch", VERSION, {"torch/version.py": "1"})
        self.check_refused("nvidia-cuda-runtime is not installed")

    def test_another_version_is_named(self):
        self.install_everything(torch="1.2.3")
        self.check_refused(f"torch is 1.2.3, {VERSION} is needed")

    def test_a_lost_file_is_named(self):
        self.install_everything()
        (self.site / "torch/lib/libtorch_cpu.so").unlink()
        self.check_refused("torch lacks torch/lib/libtorch_cpu.so")
        self.check_refused("torch lacks torch/lib/libtorch_cpu.so", "sound")

    def test_a_file_that_was_cut_is_named(self):
        self.install_everything()
        (self.site / "torch/lib/libtorch_cpu.so").write_text("x" * 9)
        self.check_refused("has 9 bytes, 10 are expected")

    def test_an_installation_that_stopped_before_its_record_is_named(self):
        self.install_everything()
        (self.site / f"torch-{VERSION}.dist-info/RECORD").unlink()
        self.check_refused("torch has no list of its files")
        self.check_refused("torch has no list of its files", "sound")


class Setup(Environment):
    def setUp(self):
        super().setUp()
        shutil.copytree(ROOT / "scripts", self.folder / "scripts")
        (self.folder / "cmake").mkdir()
        (self.folder / "cmake/Libtorch.cmake").write_text(f"set(LLMTRAIN_TORCH_VERSION {VERSION})\n")
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        self.tool("dpkg-query", 'printf "install ok installed"')

    def tool(self, name, script):
        (self.tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.tools / name).chmod(0o755)

    def run_setup(self, *arguments):
        env = {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"}
        return subprocess.run([self.folder / "scripts/setup.sh", *arguments], env=env, capture_output=True, text=True,
                              timeout=60, cwd="/")

    def test_nothing_is_done_when_nothing_is_missing(self):
        self.install_everything()
        before = sorted(p for p in self.folder.rglob("*") if "build" not in p.parts)
        done = self.run_setup()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ready", done.stderr)
        self.assertEqual(before, sorted(p for p in self.folder.rglob("*") if "build" not in p.parts))

    def test_who_is_not_root_is_told_what_to_install(self):
        self.install_everything()
        self.tool("dpkg-query", '[ "$3" = ninja-build ] || printf "install ok installed"')
        self.tool("id", "echo 1000")
        self.tool("apt-get", "echo must not run; exit 1")
        done = self.run_setup()
        self.assertEqual(done.returncode, 1)
        self.assertIn("sudo apt-get install -y ninja-build\n", done.stderr)

    def test_root_installs_what_is_missing_and_only_that(self):
        self.install_everything()
        self.tool("dpkg-query", '[ "$3" = ninja-build ] || printf "install ok installed"')
        self.tool("id", "echo 0")
        self.tool("dpkg", "exit 0")
        self.tool("apt-get", f'echo "$@" >>"{self.folder}/apt-calls"')
        done = self.run_setup()
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = (self.folder / "apt-calls").read_text().splitlines()
        self.assertTrue(calls[0].endswith("update"))
        self.assertTrue(calls[1].endswith(" ninja-build"))

    def test_a_linked_environment_is_never_changed(self):
        self.venv.rename(self.folder / "elsewhere")
        self.venv.symlink_to("elsewhere")
        done = self.run_setup()
        self.assertEqual(done.returncode, 1)
        self.assertIn("is a link", done.stderr)
        self.assertIn("torch is not installed", done.stderr)
        self.assertTrue((self.folder / "elsewhere/bin/python").exists())

    def test_a_wrong_argument_is_refused(self):
        done = self.run_setup("--gpu")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--gpu", done.stderr)


if __name__ == "__main__":
    main.run()
