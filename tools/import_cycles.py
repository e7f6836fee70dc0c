"""Import cycles between the modules of a crate, and of a Python package.

How it works: from each root (lib.rs, main.rs) the `mod` declarations give the tree of files. A file
imports another when its code, without comments, strings and `#[cfg(test)]` modules, names a path
through `crate::`, `super::`, `self::` or a child module that ends in the other file. A name that a
module re-exports (`pub use`) counts as an import from the file that defines it, so a crate's list
of re-exports is no cycle by itself. Modules that reach each other form a cycle.

Of a Python package all imports count, those inside functions too: they only put off when a cycle is
met. Those for type checkers alone do not.

Missing: code that macros generate, and paths through an alias (`use a as b; b::c()` counts for `a`
alone).
"""

from __future__ import annotations

import ast
import re
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

# Comments, raw strings, strings, characters (not lifetimes): everything that is not code.
NO_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|\bb?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\(?:u\{[^}]*\}|x..|.)|[^\'\\\n])\'',
    re.S,
)
WORD = r"[A-Za-z_][A-Za-z0-9_]*"
TEST_BLOCK = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+\w+\s*\{")
TEST_FILE = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+\w+\s*;")
CHILD = re.compile(rf"\bmod\s+({WORD})\s*;")
INLINE = re.compile(rf"\bmod\s+({WORD})\s*\{{")
USE = re.compile(r"\buse\s+([^;]+);")
DEFINES = re.compile(rf"\b(?:fn|struct|enum|union|trait|type|const|static|macro_rules!)\s+(?:mut\s+)?({WORD})")
# A path in an expression or a type: `crate::a::b`, `super::c`, `child::d`.
PATH = re.compile(rf"(?<![\w:])\$?({WORD}(?:\s*::\s*{WORD})+)")


def code_of(text: str) -> str:
    """The text without comments, strings and test modules."""
    text = NO_CODE.sub(lambda m: "''" if m.group()[0] not in "/" else " ", text)
    text = TEST_FILE.sub(" ", text)
    while found := TEST_BLOCK.search(text):
        text = text[: found.start()] + text[closing(text, found.end()) :]
    return text


def closing(text: str, at: int) -> int:
    """The index after the brace that closes the block around `at`."""
    depth = 1
    while depth and at < len(text):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return at


def leaves(tree: str) -> list[tuple[list[str], str]]:
    """The paths of a `use`, each with its local name: `a::{b, c as d}` is a::b as b, a::c as d."""
    tree = tree.strip()
    front, brace, rest = tree.partition("{")
    if brace:
        head = [part.strip() for part in front.split("::") if part.strip()]
        parts, depth, last = [], 0, 0
        inner = rest[: closing(rest, 0) - 1]
        for at, char in enumerate(inner):
            depth += {"{": 1, "}": -1}.get(char, 0)
            if char == "," and not depth:
                parts.append(inner[last:at])
                last = at + 1
        parts.append(inner[last:])
        return [(head + path, name) for part in parts if part.strip() for path, name in leaves(part)]
    path, _, alias = tree.partition(" as ")
    words = [part.strip() for part in path.split("::") if part.strip()]
    if words[-1:] == ["self"] and len(words) > 1:
        words.pop()
    return [(words, alias.strip() or (words[-1] if words else ""))]


@dataclass
class Module:
    """A file of a crate."""

    file: Path
    parent: Module | None
    code: str
    children: dict[str, Module] = field(default_factory=dict)
    # Name -> path, for everything it imports; paths of globs.
    names: dict[str, list[str]] = field(default_factory=dict)
    globs: list[list[str]] = field(default_factory=list)
    defines: set[str] = field(default_factory=set)

    def root(self) -> Module:
        """The module of `crate::`."""
        return self.parent.root() if self.parent else self


def read(file: Path, parent: Module | None = None) -> Module:
    """A module and the modules it declares."""
    code = code_of(file.read_text(encoding="utf-8"))
    module = Module(file, parent, code)
    folder = file.parent if file.stem in ("lib", "main", "mod") else file.parent / file.stem
    for name in CHILD.findall(code):
        found = [path for path in (folder / f"{name}.rs", folder / name / "mod.rs") if path.is_file()]
        if found:
            module.children[name] = read(found[0], module)
    for tree in USE.findall(code):
        for path, name in leaves(tree):
            if name == "*":
                module.globs.append(path[:-1])
            else:
                module.names[name] = path
    module.defines = set(DEFINES.findall(code))
    return module


def resolve(at: Module, path: list[str], met: frozenset[tuple[Path, str]] = frozenset()) -> Module | None:
    """The file that defines a path, as seen from a module. None: another crate's, or unknown."""
    words = list(path)
    if words and words[0] == "crate":
        at, words = at.root(), words[1:]
    elif words and words[0] in ("self", "super"):
        while words and words[0] in ("self", "super"):
            if words[0] == "super":
                at = at.parent or at
            words = words[1:]
    elif not words or words[0] not in at.children:
        return None
    while words and words[0] in at.children:
        at, words = at.children[words[0]], words[1:]
    if not words or words[0] in at.defines or (at.file, words[0]) in met:
        return at
    met |= {(at.file, words[0])}
    if words[0] in at.names:
        return resolve(at, at.names[words[0]] + words[1:], met)
    for glob in at.globs:
        source = resolve(at, glob, met)
        if source and (words[0] in source.defines or words[0] in source.names or words[0] in source.children):
            return resolve(source, ["self", *words], met)
    return at


def scopes(module: Module) -> list[tuple[str, int]]:
    """The code of a file, split by the number of inline modules around each part."""
    parts, rest = [], [(module.code, 0)]
    while rest:
        code, depth = rest.pop()
        outer, at = "", 0
        while found := INLINE.search(code, at):
            end = closing(code, found.end())
            outer += code[at : found.start()]
            rest.append((code[found.end() : end - 1], depth + 1))
            at = end
        parts.append((outer + code[at:], depth))
    return parts


def imports(module: Module) -> set[Path]:
    """The other files that a file's code names."""
    found = set()
    for code, depth in scopes(module):
        paths = [path for tree in USE.findall(code) for path, _ in leaves(tree)]
        paths += [re.split(r"\s*::\s*", text) for text in PATH.findall(USE.sub(" ", code))]
        for path in paths:
            words = path[:-1] if path and path[-1] == "*" else path
            inside = depth
            # `super` in an inline module is the file itself.
            while inside and words[:1] == ["super"]:
                words, inside = words[1:] or ["self"], inside - 1
                if words[0] != "super":
                    words = ["self", *words]
            target = resolve(module, words)
            if target and target is not module:
                found.add(target.file)
    return found


def graph(roots: list[Path]) -> dict[Path, set[Path]]:
    """File -> the files it imports, for a crate with these roots."""
    edges: dict[Path, set[Path]] = {}
    rest = [read(root) for root in roots]
    while rest:
        module = rest.pop()
        edges.setdefault(module.file, set()).update(imports(module))
        rest.extend(module.children.values())
    return edges


def python_graph(package: Path) -> dict[Path, set[Path]]:
    """File -> the files it imports, for a Python package in this folder."""
    # A native module is its `.pyi`.
    found = sorted([*package.rglob("*.py"), *package.rglob("*.pyi")], reverse=True)
    files = {path.relative_to(package.parent).with_suffix("").parts: path for path in found}
    modules = {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for parts, path in files.items()}
    edges: dict[Path, set[Path]] = {}
    for path in modules.values():
        named = python_imports(ast.parse(path.read_text(encoding="utf-8")))
        # `from package import name`: the module of this name, or else the package has it.
        found = (modules.get(name) or modules.get(name.rpartition(".")[0]) for name in named)
        edges[path] = {file for file in found if file and file != path}
    return edges


def python_imports(tree: ast.AST) -> set[str]:
    """Full names of what a module's code imports: `a.b` for `from a import b`."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are written out from the package's root"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        else:
            found |= python_imports(node)
    return found


def cycles(edges: dict[Path, set[Path]]) -> list[list[Path]]:
    """Sets of files in which each reaches each other, the largest first. (Few files: reach of each
    by a walk.)
    """
    reach: dict[Path, set[Path]] = {}
    for start in edges:
        seen: set[Path] = set()
        rest = list(edges[start])
        while rest:
            at = rest.pop()
            if at not in seen:
                seen.add(at)
                rest.extend(edges.get(at, ()))
        reach[start] = seen
    groups, done = [], set()
    for start in sorted(edges):
        if start in reach[start] and start not in done:
            group = sorted(other for other in reach[start] if start in reach.get(other, ()))
            done.update(group)
            groups.append(group)
    return sorted(groups, key=lambda group: (-len(group), group))


def shortest(edges: dict[Path, set[Path]], group: list[Path]) -> list[Path]:
    """The shortest path around a cycle, its first file again at the end."""
    best: list[Path] = []
    for start in group:
        rest, met = deque([[start]]), {start}
        while rest:
            way = rest.popleft()
            if best and len(way) >= len(best):
                break
            for after in sorted(edges[way[-1]] & set(group)):
                if after == start:
                    best = [*way, start] if not best or len(way) + 1 < len(best) else best
                elif after not in met:
                    met.add(after)
                    rest.append([*way, after])
    return best
