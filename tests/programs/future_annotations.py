"""Doc."""
from __future__ import annotations


def early(x: Undefined1) -> Undefined2:
    return x


class Model:
    weight: NotThere = 1

    def forward(self, x: AlsoNotThere) -> Model:
        return self


count: SomeType = 3


def late(x: Undefined3) -> list[Undefined4]:
    y: Undefined5 = x
    return [y]


print(early.__annotations__, Model.__annotations__, Model.forward.__annotations__)
print(__annotations__, late.__annotations__, late(1), __doc__)
