"""Draws selectors from the whole grammar, over the names that a program really has."""

from __future__ import annotations

import ast
from random import Random

EVENTS = ("#enter", "#exit", "#value", "#error", "#yield", "#receive", "#loop", "#endloop")
HELPERS = ("managed", "wrapper", "counted", "note", "watched", "drive")
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Place:
    """A function, class body or the module, and the variables that it has."""

    def __init__(self, path: str, node: ast.AST) -> None:
        self.target = "//" + path
        self.names: list[str] = []
        self.loops: list[str] = []
        stack = list(ast.iter_child_nodes(node))
        while stack:
            found = stack.pop()
            if isinstance(found, ast.Name):
                self.names.append(found.id)
            elif isinstance(found, ast.arg):
                self.names.append(found.arg)
            elif isinstance(found, ast.alias):
                self.names.append(found.asname or found.name)
            elif isinstance(found, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and found.name:
                self.names.append(found.name)
            elif isinstance(found, ast.Attribute) and isinstance(found.value, ast.Name):
                self.names.append(f"{found.value.id}.{found.attr}")
            if isinstance(found, ast.For) and isinstance(found.target, ast.Name):
                self.loops.append(found.target.id)
            if isinstance(found, SCOPES) and not isinstance(found, ast.Lambda):
                self.names.append(found.name)
            else:
                stack += ast.iter_child_nodes(found)
        names = {*self.names} - {"note", "traceback", "attempt", "drive"}
        often = [name for name in names if len(name) == 1 or name.startswith("box.")]
        self.names = sorted(names) + sorted(often) * 3 or ["a"]


def places(source: str, after: int) -> list[Place]:
    """What can be named in a program below line ``after``."""
    tree = ast.parse(source)
    found = [Place("", tree)]
    stack: list[tuple[str, ast.AST]] = [("", tree)]
    while stack:
        path, node = stack.pop()
        for child in ast.iter_child_nodes(node):
            name = getattr(child, "name", None)
            inner = path
            if isinstance(child, SCOPES[:3]):
                inner = f"{path}/{name}" if path else str(name)
                if child.lineno > after or name in HELPERS:
                    found.append(Place(inner, child))
            elif isinstance(child, ast.Assign) and isinstance(child.value, ast.Lambda):
                target = child.targets[0]
                if isinstance(target, ast.Name):
                    whole = f"{path}/{target.id}" if path else target.id
                    found.append(Place(whole, child.value))
            stack.append((inner, child))
    return found


class Selectors:
    """Selectors over some places, drawn from ``random``."""

    def __init__(self, random: Random, known: list[Place]) -> None:
        self.random = random
        self.known = known

    def variable(self, place: Place) -> str:
        draw = self.random.random()
        if draw < 0.1 and place.loops:
            loop = self.random.choice(place.loops)
            return self.random.choice((f"#loop_{loop}", f"#endloop_{loop}"))
        if draw < 0.35:
            return self.random.choice(EVENTS)
        return self.random.choice(place.names)

    def focus(self, place: Place) -> str:
        draw = self.random.random()
        if draw < 0.08:
            return self.random.choice(("*", "$any", "$any:@Tag", ":@Tag"))
        text = self.variable(place)
        if draw < 0.2 and "#" not in text:
            text += " as other"
        if draw > 0.9:
            text += self.random.choice(("=1", "='x'", "~callable", "=limit"))
        return text

    def beside(self, place: Place, most: int = 3) -> list[str]:
        names = [self.besides(place) for _ in range(self.random.randint(0, most))]
        return [
            name + self.random.choice(("", "", "", "", "=1", " as kept", "=None", "~callable"))
            for name in dict.fromkeys(names)
        ]

    def besides(self, place: Place) -> str:
        draw = self.random.random()
        if draw < 0.1:
            return self.random.choice(("$v", "$v:@Tag", "$v:@enter", "$v:@exit"))
        return self.variable(place) if draw < 0.3 else self.random.choice(place.names)

    def inner(self, place: Place) -> str:
        """One function, with something that fires in it."""
        draw = self.random.random()
        beside = self.beside(place)
        if draw < 0.15:
            return f"{place.target}({', '.join(beside)}) as result"
        if draw < 0.3:
            every = [*beside, "!" + self.focus(place)]
            self.random.shuffle(every)
            return f"{place.target}({', '.join(every)})"
        if draw < 0.4:
            every = [*beside, "!" + self.variable(place), "!!" + self.variable(place)]
            return f"{place.target}({', '.join(every)})"
        called = f"({', '.join(beside)})" if beside or draw < 0.5 else ""
        return f"{place.target}{called} > {self.focus(place)}"

    def draw(self) -> str:
        place = self.random.choice(self.known)
        text = self.inner(place)
        draw = self.random.random()
        if draw < 0.12:
            names = self.beside(place) or [place.names[0]]
            if draw < 0.05:
                below = self.random.choice(self.known)
                names.append(f"{below.target}({below.names[0]})")
            return f"{place.target}({', '.join(names)})"
        while self.random.random() < 0.3:
            outer = place if self.random.random() < 0.2 else self.random.choice(self.known)
            beside = self.beside(outer, 2)
            text = f"{outer.target}{'(' + ', '.join(beside) + ')' if beside else ''} > {text}"
        return text
