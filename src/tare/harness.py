"""Which code of the measuring side a measurement depends on, as one digest that comments do not change."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

PACKAGE = Path(__file__).parent

#: modules whose behaviour is part of a measurement, besides the worker wheel; what only words or stores is not
MODULES = (
    "order.py",
    "run.py",
    "measure.py",
    "ground.py",
    "evaluate.py",
    "events.py",
    "event_shapes.py",
    "cache_level.py",
    "page_cache.py",
    "disturbance.py",
    "gpu.py",
    "peer.py",
    "backing.py",
    "runtimes",
)


def digest(package: Path = PACKAGE) -> str:
    """Return the sha256 over the syntax trees of the modules, comments, docstrings and layout left out."""
    total = hashlib.sha256()
    for name in MODULES:
        path = package / name
        for module in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            total.update(module.relative_to(package).as_posix().encode())
            total.update(_code(module).encode())
    return total.hexdigest()


def _code(module: Path) -> str:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_docstring(body[0]):
            del body[0]
    return ast.dump(tree, include_attributes=False)


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
