"""Finding a module's text: through its loader, as ``inspect`` and tracebacks do.

A loader may also compile in a way of its own (pytest rewrites assertions, type checkers add checks). Then
hooks go into the tree that is handed to the loader, if it takes one.
"""

from __future__ import annotations

import _frozen_importlib_external
import _thread
import sys
from _ast import PyCF_ONLY_AST
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from .module_source import Compiler, ModuleSource

if TYPE_CHECKING:
    import ast

Namespace = dict[str, Any]

_external: Any = _frozen_importlib_external


def read_source(
    name: str, code: CodeType | None, namespace: Namespace, known: ModuleSource | None
) -> ModuleSource | None:
    """The source of a module, or None if it has no text that its code comes from.

    ``code`` is its original code if it is about to be executed, and None if it is loaded already. ``known``
    is the source from before, which is good as long as the module is the one that was loaded.
    """
    if code is None and known is not None:
        return known
    filename = code.co_filename if code is not None else namespace.get("__file__")
    text = _text(name, filename, namespace)
    if text is None or filename is None:
        return None
    loader = namespace.get("__loader__")
    source = ModuleSource(name, filename, text, code, _compiler(loader, filename))
    some_code = code or _some_code(namespace, filename)
    # The bits of the `__future__` features (CO_FUTURE_*): a loader may have compiled with features that the
    # text does not import.
    source.flags = some_code.co_flags & 0x1FE0000 if some_code is not None else 0
    if not _standard(loader):
        source.forget_plain()
        if not _repeats(source, code):
            return None  # the loader makes its code in a way that cannot be repeated with a tree
    if known is not None and known.text == text:
        source.patches, source.attached = known.patches, known.attached
    return source


def _repeats(source: ModuleSource, code: CodeType | None) -> bool:
    """Whether the loader compiles the tree that it is given, and compiles the text's own tree to ``code``."""
    try:
        return source.takes_trees() and (code is None or source.plain == code)
    except Exception:
        return False


def _some_code(namespace: Namespace, filename: str) -> CodeType | None:
    """The code of some function that a loaded module defines. Its module code is gone by then."""
    for value in list(namespace.values()):
        # No attribute of any other object is read, which may run code of the program.
        if type(value) is FunctionType and value.__code__.co_filename == filename:
            return value.__code__
    return None


def decode(source: bytes) -> str:
    """Program text as ``compile`` would read it. Raises SyntaxError on a bad encoding."""
    if b"coding" not in b"".join(source.split(b"\n", 2)[:2]):
        # As decode_source does, without the import of tokenize, which it needs to find the encoding.
        text = source.decode("utf-8-sig")
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    return str(_external.decode_source(source))


def _text(name: str, filename: str | None, namespace: Namespace) -> str | None:
    """The text of a module in the first of three ways that leads to one."""
    for read in (_data_of_loader, _source_of_loader, _data_of_file):
        try:
            text = read(name, filename, namespace)
        except (ImportError, OSError, SyntaxError, UnicodeError):
            continue  # this way does not lead to a text; another may
        if text is not None:
            return text
    return None


def _data_of_loader(name: str, filename: str | None, namespace: Namespace) -> str | None:
    """The bytes that a loader of the standard kind reads, decoded here: its own way imports ``tokenize``."""
    loader: Any = namespace.get("__loader__")
    if getattr(type(loader), "get_source", None) is not _external.SourceLoader.get_source:
        return None
    return decode(loader.get_data(loader.path))


def _source_of_loader(name: str, filename: str | None, namespace: Namespace) -> str | None:
    """The text that the loader gives to tracebacks."""
    loader: Any = namespace.get("__loader__")
    spec = namespace.get("__spec__")
    if not hasattr(loader, "get_source"):
        return None
    text = loader.get_source(spec.name if spec is not None else name)
    return None if text is None else str(text)


def _data_of_file(name: str, filename: str | None, namespace: Namespace) -> str | None:
    """The text in the file of the code, for a module without a loader that knows it."""
    if filename is None or filename.endswith((".so", ".pyd", ".pyc")):
        return None
    with open(filename, "rb") as file:
        return decode(file.read())


def _standard(loader: object) -> bool:
    """Whether the loader compiles its text as ``compile`` would, or by its method ``source_to_code``."""
    own = getattr(type(loader), "get_code", None)
    zipped = getattr(sys.modules.get("zipimport"), "zipimporter", None)
    return own is None or own is _external.SourceLoader.get_code or type(loader) is zipped


def _compiler(loader: Any, filename: str) -> Compiler | None:
    """How the module's loader turns a tree into code; None if it does so as ``compile`` would."""
    own = getattr(type(loader), "source_to_code", None)
    abstract = getattr(sys.modules.get("importlib.abc"), "InspectLoader", None)
    standard = (_external.SourceLoader.source_to_code, getattr(abstract, "source_to_code", None))
    if own is None or own in standard:
        return None

    def compiler(tree: ast.Module) -> CodeType:
        try:
            code = loader.source_to_code(tree, filename)
        except Exception:  # it decodes or parses the text itself, which is not the tree it expects
            code = _with_tree(own, loader, tree, filename)
        if not isinstance(code, CodeType):
            raise TypeError(f"{type(loader).__name__} made {type(code).__name__}")
        return code

    return compiler


def _with_tree(own: Any, loader: Any, tree: ast.Module, filename: str) -> Any:
    """The code that a loader makes of ``tree``, although it insists on parsing bytes itself.

    It is called with the file, and finds a ``compile`` in its module's globals that returns the tree when it
    parses. It acts for this thread only: another import may go through the same loader at the same time.
    """
    thread = _thread.get_ident()

    def parse(source: Any, *args: Any, **more: Any) -> Any:
        flags = more.get("flags", args[2] if len(args) > 2 else 0)
        if _thread.get_ident() == thread and flags & PyCF_ONLY_AST:
            return tree
        return compile(source, *args, **more)

    namespace = own.__globals__
    if "compile" in namespace:
        raise TypeError("the loader has a compile of its own")
    namespace["compile"] = parse
    try:
        return loader.source_to_code(loader.get_data(filename), filename)
    finally:
        del namespace["compile"]
