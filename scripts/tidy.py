#!/usr/bin/env python3
"""clang-tidy over the sources of the plain plane (src and cli, as far as they build without libtorch).

    scripts/tidy.py                    all of them
    scripts/tidy.py --seconds 240      as many as fit; which ones differs from commit to commit
    scripts/tidy.py FILE...            these; files of the tensor plane are passed over

A file that was clean and has not changed, nor any header of ours, is not looked at again. Exit 1 when something was found.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/tidy"
CACHE = BUILD / "clean"


def digest(*paths):
    total = hashlib.sha256()
    for path in paths:
        total.update(path.read_bytes())
    return total.hexdigest()


def known_sources():
    subprocess.run(["cmake", "--preset", "tidy"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    found = []
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.is_relative_to(ROOT / "src") or path.is_relative_to(ROOT / "cli"):
            found.append(path)
    return found


def check(path):
    done = subprocess.run(["clang-tidy", "--quiet", "-p", str(BUILD), str(path)], capture_output=True, text=True)
    return path, done.returncode == 0, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--seconds", type=float, default=float("inf"))
    arguments = parser.parse_args()

    sources = known_sources()
    if arguments.files:
        sources = [path for path in sources if path in arguments.files]
    headers = digest(*sorted((ROOT / "include").rglob("*.hpp")), *sorted((ROOT / "cli").glob("*.hpp")), ROOT / ".clang-tidy")
    marks = {path: CACHE / hashlib.sha256((headers + digest(path)).encode()).hexdigest() for path in sources}
    CACHE.mkdir(parents=True, exist_ok=True)
    pending = sorted((p for p in sources if not marks[p].exists()), key=lambda p: marks[p].name)

    end = time.monotonic() + arguments.seconds
    checked, found = 0, False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(lambda p: check(p) if time.monotonic() < end else None, path) for path in pending]
        for job in concurrent.futures.as_completed(jobs):
            if job.result() is None:
                continue
            path, clean, text = job.result()
            checked += 1
            if clean:
                marks[path].touch()
            else:
                found = True
                print(text, flush=True)
    print(f"clang-tidy: {checked} of {len(sources)} files checked, {len(sources) - len(pending)} unchanged since they were clean")
    sys.exit(found)


if __name__ == "__main__":
    main()
