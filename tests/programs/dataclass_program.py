import collections
import enum
import typing
from dataclasses import asdict, dataclass, field, fields, replace


@dataclass(order=True, frozen=True)
class Config:
    lr: float = 0.1
    layers: "list[int]" = field(default_factory=lambda: [1, 2], compare=False)
    name: typing.ClassVar[str] = "config"

    def scaled(self, by):
        lr = self.lr * by
        return replace(self, lr=lr)


class Mode(enum.Enum):
    TRAIN = enum.auto()
    TEST = enum.auto()

    @property
    def short(self):
        return self.name[0]


class Pair(typing.NamedTuple):
    left: int
    right: Mode = Mode.TRAIN


Row = collections.namedtuple("Row", "a b")
print(Config().scaled(2), asdict(Config()), [f.type for f in fields(Config)], Config() < Config(1))
print(list(Mode), Mode.TRAIN.short, Mode(2), Pair(1), Row(1, 2), Row.__module__)
print(typing.get_type_hints(Config), Config.__module__, repr(Mode.TEST))
