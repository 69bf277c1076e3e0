"""The rules of the tree that a script can check. Each rule takes the root of a source tree and returns its
violations, one line each; test_rules.py runs them on this tree and on planted violations."""

import re
import statistics
from dataclasses import dataclass, field

MEDIAN_LINES = 140
LONG_FILE_LINES = 400


@dataclass
class Module:
    name: str
    layer: int = -1
    plane: str = "plain"
    sources: list = field(default_factory=list)
    depends: list = field(default_factory=list)


def modules_of(root):
    """The modules that src/CMakeLists.txt declares, by name."""
    text = re.sub(r"#.*", "", (root / "src/CMakeLists.txt").read_text())
    modules = {}
    for call in re.findall(r"llmtrain_module\(([^)]*)\)", text):
        words = call.split()
        module, key = Module(words[0]), None
        for word in words[1:]:
            if word in ("LAYER", "PLANE", "SOURCES", "DEPENDS", "LIBRARIES", "PUBLIC_LIBRARIES"):
                key = word
            elif key == "LAYER":
                module.layer = int(word)
            elif key == "PLANE":
                module.plane = word
            elif key == "SOURCES":
                module.sources.append(word)
            elif key == "DEPENDS":
                module.depends.append(word)
        modules[module.name] = module
    return modules


def files(root, *folders, suffixes=(".hpp", ".cpp")):
    found = []
    for folder in folders:
        found += [p for p in sorted((root / folder).rglob("*")) if p.is_file() and p.suffix in suffixes]
    return found


def relative(root, path):
    return path.relative_to(root).as_posix()


def matches(root, paths, pattern, message):
    """`file:line: message` for every line of `paths` that matches; string literals and comments count."""
    violations = []
    for path in paths:
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if re.search(pattern, line):
                violations.append(f"{relative(root, path)}:{number}: {message}: {line.strip()}")
    return violations


def includes(path):
    """(line number, included name, whether in quotes) of every include."""
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            yield number, match.group(2), match.group(1) == '"'


def module_files(root, name):
    return files(root, f"include/llmtrain/{name}", f"src/{name}")


def layers(root):
    """Includes follow the arrows of src/CMakeLists.txt, which point down; every source is listed there."""
    modules, violations = modules_of(root), []
    declared = (root / "src/CMakeLists.txt").read_text()
    for module in modules.values():
        for dep in module.depends:
            if dep not in modules:
                violations.append(f"src/CMakeLists.txt: {module.name} depends on {dep}, which is no module")
            elif modules[dep].layer >= module.layer:
                violations.append(f"src/CMakeLists.txt: the arrow {module.name} -> {dep} does not point down")
        allowed = {module.name, *module.depends}
        for path in module_files(root, module.name):
            for number, name, _ in includes(path):
                if not name.startswith("llmtrain/"):
                    continue
                target = name.split("/")[1]
                if target not in allowed:
                    violations.append(
                        f"{relative(root, path)}:{number}: {module.name} includes {name}, but declares no arrow to {target}"
                    )
        sources = {relative(root / "src" / module.name, p) for p in files(root, f"src/{module.name}", suffixes=(".cpp",))}
        elsewhere = {name for name in sources if f" {module.name}/{name}" in declared}  # the engine's own source
        for name in sorted(sources - set(module.sources) - elsewhere):
            violations.append(f"src/{module.name}/{name}: not listed in src/CMakeLists.txt")
    for folder in ("include/llmtrain", "src"):
        for path in sorted((root / folder).iterdir()) if (root / folder).is_dir() else []:
            if path.is_dir() and path.name not in modules:
                violations.append(f"{relative(root, path)}: not a declared module")
    return violations


def planes(root):
    """The plain plane and cli see neither libtorch, nor NCCL, nor a module of the tensor plane."""
    modules, violations = modules_of(root), []
    plain = [m.name for m in modules.values() if m.plane == "plain"]
    tensor = {m.name for m in modules.values() if m.plane == "tensor"}
    paths = files(root, "cli", *(f"{top}/{name}" for name in plain for top in ("include/llmtrain", "src")))
    for path in paths:
        for number, name, _ in includes(path):
            place = f"{relative(root, path)}:{number}"
            if re.match(r"(ATen|torch|c10|caffe2|gloo|nccl)\b", name):
                violations.append(f"{place}: the plain plane includes {name}")
            if name.startswith("llmtrain/") and name.split("/")[1] in tensor:
                violations.append(f"{place}: the plain plane includes {name} of the tensor plane")
    return violations


def header_style(root):
    """Headers start with #pragma once, say what they declare, and keep third parties out."""
    violations = []
    for path in files(root, "include", suffixes=(".hpp",)):
        lines = path.read_text().splitlines()
        name = relative(root, path)
        if not lines or lines[0] != "#pragma once":
            violations.append(f"{name}:1: the first line is not #pragma once")
        if not any(line.startswith("// ") for line in lines):
            violations.append(f"{name}:1: no comment says what this is")
        for number, include, quoted in includes(path):
            if re.match(r"(nlohmann|yaml-cpp|spdlog|openssl|CLI|pcre2|isa-l)\b", include):
                violations.append(f"{name}:{number}: a public header includes {include}")
            if quoted and not include.startswith("llmtrain/"):
                violations.append(f"{name}:{number}: {include} is not reached through llmtrain/")
    return violations


def broad_includes(root):
    """libtorch is included narrowly: the umbrella headers cost seconds in every file that sees them."""
    pattern = r'#\s*include\s*<(torch/torch\.h|torch/all\.h|ATen/ATen\.h|torch/extension\.h)>'
    return matches(root, files(root, "include", "src", "cli"), pattern, "umbrella header")


def environment(root):
    """Only cli reads the environment; everything below it is told."""
    return matches(root, files(root, "src", "include"), r"\bgetenv\s*\(", "the environment is read outside cli")


def using_namespace(root):
    headers = files(root, "include", "src", "cli", "tests", suffixes=(".hpp",))
    return matches(root, headers, r"^\s*using\s+namespace\b", "using namespace in a header")


def standard_output(root):
    """stdout carries results, and results are printed by commands."""
    pattern = r"^(?!\s*//).*(\bstd::cout\b|\b(std::)?(printf|puts|putchar)\s*\()"
    return matches(root, files(root, "src", "include"), pattern, "standard output outside cli")


def leftovers(root):
    paths = files(root, "include", "src", "cli", "tests", "bench", "cmake", "scripts", "docs", "configs", "examples",
                  suffixes=(".hpp", ".cpp", ".py", ".sh", ".cmake", ".txt", ".md", ".yaml"))
    paths = [p for p in paths if not relative(root, p).startswith("tests/repo/")]
    return matches(root, paths, r"\b(TODO|FIXME|XXX|HACK)\b", "leftover mark")


def file_lengths(root):
    """The median file is short; at most two files, or one in forty, are over 400 lines."""
    lengths = {relative(root, p): len(p.read_text().splitlines()) for p in files(root, "src", "include", "cli")}
    if not lengths:
        return ["no source files"]
    violations = []
    median = statistics.median(lengths.values())
    if median > MEDIAN_LINES:
        violations.append(f"the median file has {median} lines; at most {MEDIAN_LINES} are allowed")
    long_files = {name: n for name, n in lengths.items() if n > LONG_FILE_LINES}
    allowed = max(2, len(lengths) // 40)
    if len(long_files) > allowed:
        listing = ", ".join(f"{name} ({n})" for name, n in sorted(long_files.items()))
        violations.append(f"{len(long_files)} files have over {LONG_FILE_LINES} lines, {allowed} may: {listing}")
    return violations


def torch_version(root):
    """cmake/Libtorch.cmake alone knows the version of the torch wheel."""
    match = re.search(r"LLMTRAIN_TORCH_VERSION ([0-9.]+)\)", (root / "cmake/Libtorch.cmake").read_text())
    if not match:
        return ["cmake/Libtorch.cmake: no LLMTRAIN_TORCH_VERSION"]
    paths = files(root, "cmake", "scripts", "src", "include", "cli", suffixes=(".hpp", ".cpp", ".py", ".sh", ".cmake", ".txt"))
    paths = [p for p in paths if relative(root, p) != "cmake/Libtorch.cmake"]
    return matches(root, paths, re.escape(match.group(1)), "the torch version is stated a second time")


def links(root):
    """Relative links of the documents lead somewhere."""
    violations = []
    documents = [p for p in sorted(root.glob("*.md")) + sorted((root / "docs").rglob("*.md"))]
    for path in documents:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
            if not re.match(r"[a-z]+:", target) and not (path.parent / target).exists():
                violations.append(f"{relative(root, path)}: broken link {target}")
    return violations


def architecture_length(root):
    path = root / "ARCHITECTURE.md"
    length = len(path.read_text().splitlines()) if path.exists() else 0
    return [] if 0 < length <= 300 else [f"ARCHITECTURE.md has {length} lines; 1 to 300 are allowed"]


ALL = [layers, planes, header_style, broad_includes, environment, using_namespace, standard_output, leftovers,
       file_lengths, torch_version, links, architecture_length]
