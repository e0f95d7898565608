"""The networks of FL-Market's authors: files as PyTorch writes them are read, and nothing that they
ask is done.
"""

from __future__ import annotations

import argparse
import io
import os
import pickle
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import special

from hdpm_book import retrieval
from hdpm_book.federated import published
from hdpm_book.federated.regretnet import Network, forward, shapes, sub_bid_values
from hdpm_lib.auctions.bids import Bids
from tests.support import generator, refusals, seen_by_hand, some_auctions

LOOKS_AT = []
Array = np.ndarray
SETS = ("fl_market_networks", "fl_market_instances")
FOLDER = Path(os.environ.get("HDPM_DATA_DIR") or "/nowhere")
THERE = os.environ.get("HDPM_DATA") != "standin" and all(
    (FOLDER / file["name"]).is_file()
    for name in SETS
    for file in retrieval.REGISTRY[name]["files"].values()
)
needs_files = pytest.mark.skipif(
    not THERE, reason="needs the networks of FL-Market's authors in HDPM_DATA_DIR"
)
SHORT = {"IID": "iid", "Non-IID": "niid"}
OUTCOMES = {
    "RegretNet": (1, "softmax"),
    "M-RegretNet": (4, "softmax"),
    "DM-RegretNet": (4, "deterministic"),
}


# --- files as PyTorch writes them ---------------------------------------------------------------


class FloatStorage(NamedTuple):
    """The numbers of a tensor in a file: its name, and how many there should be."""

    key: str
    count: int


class Tensor(NamedTuple):
    """A tensor as PyTorch writes it: its place in a storage."""

    storage: FloatStorage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _rebuild_tensor_v2(*_: Any) -> None:
    """Only its name is written."""


class Writer(pickle.Pickler):
    def persistent_id(self, thing: Any) -> Any:
        return (
            ("storage", FloatStorage, thing.key, "cpu", thing.count)
            if isinstance(thing, FloatStorage)
            else None
        )

    def reducer_override(self, thing: Any) -> Any:
        return (
            (_rebuild_tensor_v2, (*thing, False, OrderedDict()))
            if isinstance(thing, Tensor)
            else NotImplemented
        )


@pytest.fixture(autouse=True)
def pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that have the names of PyTorch's."""
    for path, thing in (("torch", FloatStorage), ("torch._utils", _rebuild_tensor_v2)):
        monkeypatch.setattr(thing, "__module__", path)
        monkeypatch.setitem(sys.modules, path, module := types.ModuleType(path))
        setattr(module, thing.__name__, thing)


def packed(pickled: bytes, storages: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        for key, raw in storages.items():
            archive.writestr(f"archive/data/{key}", raw)
    return file.getvalue()


def written(
    arrays: dict[str, Array], M: int = 1, activation: str = "softmax", **changes: Tensor
) -> bytes:
    """A file with these arrays, and tensors that are changed, by the key of their storage."""
    tensors: OrderedDict[str, Tensor] = OrderedDict()
    for key, (name, array) in enumerate(arrays.items()):
        strides = tuple(stride // array.itemsize for stride in array.strides)
        tensors[name] = Tensor(FloatStorage(str(key), array.size), 0, array.shape, strides)
        tensors[name] = changes.get(f"storage{key}", tensors[name])
    settings = argparse.Namespace(a_activation=activation, smoothing=0.25, random_seed=7)
    whole = {
        "name": "some",
        "arch": {"n_agents": 3, "n_items": M},
        "state_dict": tensors,
        "args": settings,
    }
    Writer(file := io.BytesIO(), 2).dump(whole)
    return packed(
        file.getvalue(), {str(key): array.tobytes() for key, array in enumerate(arrays.values())}
    )


def some_arrays(M: int, rng: np.random.Generator) -> dict[str, Array]:
    """Three owners and hidden layers of 5, 6 and 7 nodes; slopes are (out, into)."""
    found = {}
    for part, last in (("payment", 4), ("allocation", 3 * (M + 1))):
        for layer, (into, out) in enumerate([(3 * (M + 2) + 1, 5), (5, 6), (6, 7), (7, last)]):
            found[f"module.{part}_head.{2 * layer}.weight"] = rng.normal(0, 1, (out, into)).astype(
                "<f4"
            )
            found[f"module.{part}_head.{2 * layer}.bias"] = rng.normal(0, 1, out).astype("<f4")
    return found


def as_published(
    arrays: dict[str, Array], truth: Bids, budget: float, M: int
) -> tuple[Array, Array]:
    """The auction from the arrays of a file, where nothing is the last outcome and the buyer the
    last one paid.
    """
    scores = {}
    for part in ("allocation", "payment"):
        y = seen_by_hand(truth, budget, M)
        for layer in (0, 2, 4, 6):
            slope, offset = (
                arrays[f"module.{part}_head.{layer}.{x}"].astype(float) for x in ("weight", "bias")
            )
            y = slope @ (y if layer == 0 else np.tanh(y)) + offset
        scores[part] = y
    chances = special.softmax(scores["allocation"].reshape(-1, M + 1), -1)
    return (
        np.column_stack([chances[:, M], chances[:, :M]]),
        special.softmax(scores["payment"])[:-1] * budget,
    )


def check_auctions(network: Network, arrays: dict[str, Array], rng: np.random.Generator) -> None:
    truth, budget = some_auctions(3, rng, owners=network.owners)
    values = sub_bid_values(truth.family, truth.rate, truth.privacy_budget, network.levels)
    found = forward(network.weights, values, truth.privacy_budget, 1.0 * truth.sizes, budget)
    for k in range(3):
        expected = as_published(arrays, truth[k], budget[k], network.levels)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one[k], other, rtol=1e-9, atol=1e-300)


def check_numbers(network: Network, arrays: dict[str, Array], M: int) -> None:
    """Number by number: what was last is now first."""
    for part, layers in network.weights.items():
        for layer, (slope, offset) in enumerate(layers):
            last = layer == 3
            there = arrays[f"module.{part}_head.{2 * layer}.bias"]
            slopes = arrays[f"module.{part}_head.{2 * layer}.weight"]
            assert slope.shape == slopes.shape[::-1] and slope.dtype == offset.dtype == np.float64
            group = (M + 1 if part == "allocation" else 4) if last else len(there)
            for node in range(len(there)):
                first = node - node % group
                place = node % group
                moved = first + (place + 1) % group if last else node
                assert offset[moved] == there[node] and (slope[:, moved] == slopes[node]).all()


@pytest.mark.parametrize("kind", OUTCOMES)
def test_a_file_comes_back_number_by_number(kind: str) -> None:
    M, activation = OUTCOMES[kind]
    arrays = some_arrays(M, rng := generator(950, M))
    network, settings = published.read(written(arrays, M, activation))
    assert (network.kind, network.levels, network.owners, network.temperature) == (kind, M, 3, 0.25)
    assert settings == {"a_activation": activation, "smoothing": 0.25, "random_seed": 7}
    check_numbers(network, arrays, M)
    check_auctions(network, arrays, rng)


def test_another_order_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = some_arrays(4, generator(951))
    monkeypatch.setattr(np, "roll", lambda x, *_, **__: x)
    network, _ = published.read(written(arrays, 4))
    for check in (
        lambda: check_numbers(network, arrays, 4),
        lambda: check_auctions(network, arrays, generator(952)),
    ):
        with pytest.raises(AssertionError):
            check()


# --- what a file must not do --------------------------------------------------------------------

NAMES = """os.system posix.system nt.system subprocess.Popen builtins.eval __builtin__.eval
builtins.exec builtins.getattr importlib.import_module numpy.load torch.load torch.Storage
torch._utils._rebuild_tensor argparse.ArgumentParser collections.defaultdict
Collections.OrderedDict collections.ordereddict collections.abc.OrderedDict spy.OrderedDict
hdpm_book.federated.published.read""".split()


def reduced(module: str, name: str, *arguments: Any) -> bytes:
    """A pickle that calls something; a name with dots is one of protocol 4, which looks it up step
    by step.
    """
    words, told = (
        [pickle.dumps(word, 2)[2:-1] for word in group] for group in ((module, name), (arguments,))
    )
    named = (
        b"\x80\x04" + b"".join(words) + b"\x93"
        if "." in name
        else b"\x80\x02" + f"c{module}\n{name}\n".encode()
    )
    return named + told[0] + b"R."


def attacks(marker: Path) -> dict[str, bytes]:
    """Pickles that leave a file if what they name is run."""
    shell = f"touch {marker}"
    code = f"open({str(marker)!r}, 'w').close()"
    return {
        "os": reduced("os", "system", shell),
        "posix": reduced("posix", "system", shell),
        "eval": reduced("builtins", "eval", code),
        "eval of Python 2": reduced("__builtin__", "eval", code),
        "import": reduced("spy", "anything"),
        "dots": reduced("collections", "OrderedDict.__base__.__subclasses__"),
        "dots of a module": reduced("shutil", "os.system", shell),
    }


@pytest.fixture
def marker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What an attack leaves; a module does so when it is imported."""
    found = tmp_path / "marker"
    (tmp_path / "spy.py").write_text(
        f"open({str(found)!r}, 'w').close()\nanything = OrderedDict = dict\n", encoding="utf8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "spy", raising=False)
    return found


@pytest.mark.parametrize("name", attacks(Path()))
def test_nothing_is_run(name: str, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = attacks(marker)[name]
    for whole in (pickled, b"\x80\x02}X\x04\x00\x00\x00arch" + pickled[2:-1] + b"s."):
        with pytest.raises(pickle.UnpicklingError, match="is refused"):
            published.read(packed(whole, {}))
    assert not marker.exists() and "spy" not in sys.modules
    monkeypatch.setattr(published._Reader, "find_class", pickle.Unpickler.find_class)
    with pytest.raises((TypeError, KeyError)):  # what it gives is no network, but it has run
        published.read(packed(pickled, {}))
    assert marker.exists() or name == "dots"


@pytest.mark.parametrize("name", NAMES)
def test_no_other_name_is_known(name: str, marker: Path) -> None:
    module, _, thing = name.rpartition(".")
    with pytest.raises(
        pickle.UnpicklingError,
        match=f"{thing} is not among what a trained network needs: it is refused",
    ):
        published.read(packed(reduced(module, thing), {}))
    assert not marker.exists()


PLACED = FloatStorage("0", 50)
TENSORS: dict[str, Tensor] = {
    "by column": Tensor(PLACED, 0, (5, 10), (1, 5)),
    "overlapping": Tensor(PLACED, 0, (5, 10), (0, 1)),
    "offset beyond": Tensor(PLACED, 1, (5, 10), (10, 1)),
    "offset below": Tensor(PLACED, -50, (5, 10), (10, 1)),
    "shape beyond": Tensor(PLACED, 0, (6, 10), (10, 1)),
    "shape open": Tensor(PLACED, 0, (-1,), (1,)),
    "count beyond": Tensor(FloatStorage("0", 51), 0, (5, 10), (10, 1)),
    "count below": Tensor(FloatStorage("0", 49), 0, (7, 7), (7, 1)),
    "count open": Tensor(FloatStorage("0", -1), 0, (5, 10), (10, 1)),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_that_are_not_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = some_arrays(1, generator(953))
    assert next(iter(arrays.values())).shape == (5, 10)
    published.read(written(arrays, storage0=Tensor(PLACED, 0, (5, 10), (10, 1))))
    with pytest.raises(
        pickle.UnpicklingError,
        match=r"row by row|not inside its 50 numbers|does not hold -?\d+ numbers",
    ):
        published.read(written(arrays, storage0=TENSORS[name]))


def test_numbers_of_another_type() -> None:
    """Doubles, or a file that is cut: twice or half of what there should be."""
    arrays = some_arrays(1, generator(954))
    pickled = zipfile.ZipFile(io.BytesIO(written(arrays))).read("archive/data.pkl")
    for change in (lambda array: array.astype(float), lambda array: array.ravel()[::2]):
        storages = {str(key): change(array).tobytes() for key, array in enumerate(arrays.values())}
        with pytest.raises(
            pickle.UnpicklingError, match="storage 0 does not hold 50 numbers of type float32"
        ):
            published.read(packed(pickled, storages))
    with pytest.raises(pickle.UnpicklingError, match="does not hold"):
        published.read(
            packed(pickled.replace(b"ctorch\nFloatStorage\n", b"X\x02\x00\x00\x00f4"), storages)
        )


def test_lenient_reading_would_be_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its checks a tensor would come back with the numbers of another order."""
    arrays = some_arrays(1, generator(955))
    lenient = {
        ("torch._utils", "_rebuild_tensor_v2"): lambda storage, _, shape, *__: storage.reshape(
            shape
        )
    }
    monkeypatch.setattr(published, "ADMITTED", published.ADMITTED | lenient)
    network, _ = published.read(written(arrays, storage0=TENSORS["by column"]))
    check_numbers(network, arrays, 1)


def test_files_that_are_cut() -> None:
    raw = written(some_arrays(1, generator(956)))
    for end in (len(raw) // 2, len(raw) - 30):
        with pytest.raises(zipfile.BadZipFile):
            published.read(raw[:end])


# --- the files themselves -----------------------------------------------------------------------


def plainly(raw: bytes) -> dict[str, Any]:
    """What is in a file, by the open unpickler of Python: for files whose hash is known."""

    class Plain(pickle.Unpickler):
        def persistent_load(self, pid: Any) -> Array:
            return np.frombuffer(archive.read(f"archive/data/{pid[2]}"), "<f4")

    with zipfile.ZipFile(io.BytesIO(raw)) as archive, pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            sys.modules["torch._utils"],
            "_rebuild_tensor_v2",
            lambda x, _, shape, *__: x.reshape(shape),
        )
        return dict(Plain(io.BytesIO(archive.read("archive/data.pkl"))).load())


@needs_files
@pytest.mark.parametrize("law", SHORT)
def test_the_networks_of_table_1(law: str) -> None:
    found = published.networks(law)
    settings = published.stored_settings(law)
    assert {
        name: (one.kind, one.levels, one.owners, one.temperature) for name, one in found.items()
    } == {
        "RegretNet": ("RegretNet", 1, 10, 0.125),
        "M-RegretNet": ("M-RegretNet", 8, 10, 0.125),
        "DM + ConvAggr": ("DM-RegretNet", 8, 10, 0.125),
        "DM + OptAggr": ("DM-RegretNet", 8, 10, 0.125),
    }
    assert list(settings) == list(found)
    assert {
        (one["num_epochs"], one["smoothing"], one["random_seed"]) for one in settings.values()
    } == {(100, 0.125, 42)}
    assert {one["data_dir"] for one in settings.values()} == {f"data/nslkdd/{SHORT[law]}/"}
    assert [settings[name]["aggr_method"] for name in list(found)[2:]] == ["ConvlAggr", "OptAggr"]
    files, source = retrieval.real(SETS[0])
    assert source == "local" and len(files) == 8
    for name, network in found.items():
        assert {
            part: [slope.shape for slope, _ in layers] for part, layers in network.weights.items()
        } == shapes(network.levels)
        raw = plainly(files[f"{published.FILES[name]}_nslkdd_{SHORT[law]}.pt"])
        assert vars(raw["args"]) == settings[name]
        check_auctions(network, raw["state_dict"], generator(957))


@needs_files
@pytest.mark.parametrize("law", SHORT)
def test_the_hundred_networks_of_figure_10(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is of the levels, the law and the seed that it should be; the first of each ten was
    trained for longer.
    """
    every = [one for ten in published.instances(law).values() for one in ten]
    read = published.read
    monkeypatch.setattr(published, "read", lambda raw: read(raw)[::-1])
    asked: Any = published.instances(law)
    assert tuple(asked) == (1, 2, 4, 8, 16) and {one.temperature for one in every} == {0.125}
    assert len({one.weights["payment"][0][0].tobytes() for one in every}) == 50
    for M, ten in asked.items():
        assert [(one["n_items"], one["random_seed"], one["num_epochs"]) for one in ten] == [
            (M, seed, 100 if seed == 42 else 50) for seed in (42, *range(1, 10))
        ]
        assert {one["data_dir"] for one in ten} == {f"data/nslkdd/{SHORT[law]}/"}
    for network, one in zip(every, [one for ten in asked.values() for one in ten], strict=True):
        assert network.kind == ("RegretNet" if one["n_items"] == 1 else "M-RegretNet")
        assert network.levels == one["n_items"] and network.owners == 10


MIXED: dict[str, dict[str, str]] = {
    "LAWS": {"IID": "niid", "Non-IID": "iid"},
    "FILES": published.FILES | {"DM + ConvAggr": "dm-reg_opt", "DM + OptAggr": "dm-reg_convl"},
}


@needs_files
@pytest.mark.parametrize("place", MIXED)
def test_files_that_are_mixed_up_are_found(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, place, MIXED[place])
    with pytest.raises(AssertionError):
        test_the_networks_of_table_1("IID")


# --- without them -------------------------------------------------------------------------------


@pytest.mark.parametrize("law", SHORT)
def test_stand_ins(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = list[Any]()
    published._notice.cache_clear()
    monkeypatch.setenv("HDPM_DATA", "standin")
    monkeypatch.setattr(retrieval, "in_notebook", lambda: True)
    monkeypatch.setattr(retrieval, "display", shown.append)
    found = published.networks(law)
    assert [(name, one.kind, one.levels) for name, one in found.items()] == [
        ("RegretNet", "RegretNet", 1),
        ("M-RegretNet", "M-RegretNet", 8),
        ("DM + ConvAggr", "DM-RegretNet", 8),
        ("DM + OptAggr", "DM-RegretNet", 8),
    ]
    assert "use small networks that were trained for this book" in str(shown[0])
    assert "Stand-in" in shown[0]._repr_html_() and published.stored_settings(law) == {}
    several = published.instances(law)
    assert "use networks without any training, of the same shape" in str(shown[-1])
    assert published.networks(law).keys() == found.keys() and len(shown) == 2  # each is said once
    assert {M: len(ten) for M, ten in several.items()} == dict.fromkeys((1, 2, 4, 8, 16), 10)
    for M, network in [
        *((M, one) for M, ten in several.items() for one in ten),
        *((n.levels, n) for n in found.values()),
    ]:
        assert network.levels == M and network.owners == 10
        assert {
            part: [slope.shape for slope, _ in layers] for part, layers in network.weights.items()
        } == shapes(M)
    assert (
        len({one.weights["payment"][0][0].tobytes() for ten in several.values() for one in ten})
        == 50
    )


def test_files_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> None:
        raise retrieval.DataUnavailableError(f"{name}: nowhere")

    monkeypatch.delenv("HDPM_DATA", raising=False)
    monkeypatch.setattr(retrieval, "real", nowhere)
    calls: tuple[Callable[[str], Any], ...] = (
        published.networks,
        published.stored_settings,
        published.instances,
    )
    for call in calls:
        with pytest.warns(retrieval.StandInWarning, match="fl_market_.*: nowhere"):
            call("IID")
    monkeypatch.setenv("HDPM_DATA", "real")
    for call in calls:
        with pytest.raises(retrieval.DataUnavailableError):
            call("IID")


test_bad_input_is_named = refusals(
    (lambda: published.networks("iid"), "law must be 'IID' or 'Non-IID', got 'iid'"),
    (lambda: published.stored_settings("iid"), "law must be 'IID' or 'Non-IID', got 'iid'"),
    (lambda: published.instances("iid"), "law must be 'IID' or 'Non-IID', got 'iid'"),
)
