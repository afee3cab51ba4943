"""The lines of a script's `main` that bring its data."""

from __future__ import annotations

from engine.exports.script.data import DataFacts

_DOWNLOADED = ("MNIST", "FashionMNIST", "CIFAR10", "CIFAR100")
_GIVEN = "parser.parse_args().data"
_FAKE = (2_000, 500)  # pictures to train on, and to validate on


def data_argument(data: DataFacts) -> str | None:
    """What `--data` is declared with; None where the script needs none."""
    if data.reader == "npz":
        return 'default=Path(__file__).with_suffix(".npz")'
    if data.reader in _DOWNLOADED:
        return 'default="data"'
    return "required=True" if data.reader == "folder" else None


def loading_lines(data: DataFacts) -> tuple[str, ...]:
    """Statements that give `train` and, where it validates, `validation`."""
    both = f"train, {'validation' if data.validates else '_'}"
    match data.reader:
        case "regression" | "pictures" | "tokens":
            return ("train = load_data()",)
        case "text":
            return (f"{both} = load_data()",)
        case "folder":
            return (f"{both} = listed({_GIVEN})",)
        case "npz":
            train, validation = f'load_data({_GIVEN}, "train")', f'load_data({_GIVEN}, "test")'
        case "fake":
            train, validation = f"torch.arange({_FAKE[0]})", f"torch.arange({_FAKE[0]}, {sum(_FAKE)})"
        case _:
            train, validation = f"load_data({_GIVEN}, True)", f"load_data({_GIVEN}, False)"
    lines = (f"train = {train}", f"validation = {validation}")
    return lines if data.validates else lines[:1]
