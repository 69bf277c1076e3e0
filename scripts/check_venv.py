"""Is the virtual environment that runs this script complete? Exit 0, or 1 with one line that says what is not.

    check_venv.py cpu|cuda|oracles TORCH_VERSION    everything that this profile needs is there
    check_venv.py sound TORCH_VERSION               whatever is installed is whole

A package is whole when every file of its RECORD is there with its size: an interrupted pip leaves a
package without RECORD, or with files missing, and would later take it for installed.
"""

import importlib.metadata as metadata
import os
import pathlib
import sys

CPU_COMPANIONS = {"nvidia-cuda-runtime": "13.0.", "nvidia-cuda-cupti": "13.0."}


def fail(text):
    print(text)
    sys.exit(1)


def check_whole(distribution):
    name = distribution.metadata["Name"]
    if not name:
        fail(f"a package without metadata lies in {distribution.locate_file('')}")
    files = distribution.files
    if not files:
        fail(f"{name} has no list of its files")
    for file in files:
        if file.suffix == ".pyc" or file.size is None:
            continue
        try:
            size = os.stat(file.locate()).st_size
        except OSError:
            fail(f"{name} lacks {file}")
        if size != file.size and not str(file).startswith("../../../bin/"):
            fail(f"{name}: {file} has {size} bytes, {file.size} are expected")


def find(name, version=""):
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        fail(f"{name} is not installed")
    if not distribution.version.startswith(version):
        fail(f"{name} is {distribution.version}, {version} is needed")
    return distribution


def closure(roots):
    """Every distribution that `roots` need, with the extras they ask for."""
    from pip._vendor.packaging.requirements import Requirement

    seen, queue = {}, [(name, frozenset()) for name in roots]
    while queue:
        name, extras = queue.pop()
        if (name, extras) in seen:
            continue
        seen[(name, extras)] = distribution = find(name)
        for text in distribution.requires or []:
            requirement = Requirement(text)
            environments = [{"extra": extra} for extra in extras] or [{"extra": ""}]
            if requirement.marker is None or any(requirement.marker.evaluate(e) for e in environments):
                queue.append((requirement.name, frozenset(requirement.extras)))
    return {d.metadata["Name"]: d for d in seen.values()}.values()


def oracle_pins():
    text = pathlib.Path(__file__).with_name("oracle-requirements.txt").read_text()
    lines = (line.strip() for line in text.splitlines())
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def main():
    profile, torch_version = sys.argv[1], sys.argv[2]
    if profile == "sound":
        needed = list(metadata.distributions())
    elif profile == "cpu":
        needed = [find("torch", torch_version)]
        needed += [find(name, version) for name, version in CPU_COMPANIONS.items()]
    else:
        find("torch", torch_version)
        pins = oracle_pins() if profile == "oracles" else {}
        for name, version in pins.items():
            find(name, version)
        needed = closure(["torch", *pins])
    for distribution in needed:
        check_whole(distribution)


if __name__ == "__main__":
    main()
