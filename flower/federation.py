"""A whole federation on this machine: ``make federation``, or ``python flower/federation.py
--rounds 5``.

One SuperLink, and for each owner two processes: hers, which alone opens her data, and a SuperNode,
in which what the market ships is run. Started as root, the folders of the owners belong to a user
of their own, and SuperNodes lose all rights of root, so that what is shipped cannot read them;
otherwise all processes have one user, and it can. All of it listens on loopback, and ends with this
process.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import certificates
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hdpm_lib.learners.gradients import accuracy
from hdpm_lib.learners.integer_answers import record_steps
from hdpm_owner import ledger
from hdpm_owner.commands import main as hdpm_owner
from hdpm_owner.receipts import main as hdpm_market
from hdpm_owner.signatures import Key
from hdpm_owner.table import Agreement, read_table

Array = NDArray[np.float64]

APP = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
OWNERS = 20_001  # number of the user to whom the owners' folders belong
POWERLESS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
STARTED = 60.0  # seconds until a server has to answer


def prepare(folder: Path, table: pd.DataFrame, schema: Path, market: str, **terms: Any) -> Path:
    """The folder of an owner, closed to everybody else, from her table, as ``hdpm-owner init``
    makes it.

    `market` is the public key of the market that she approves of; `terms` are those of
    ``terms.toml``.
    """
    own = folder / terms["name"]
    file = folder / f"{terms['name']}.csv"
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(file, index=False)
    with contextlib.redirect_stdout(io.StringIO()):  # her report
        hdpm_owner(["init", str(file), "--schema", str(schema), "--folder", str(own)])
    lines = [f"{name} = {json.dumps(value)}" for name, value in terms.items()]
    lines += ["[[markets]]", 'name = "market"', f'key = "{market}"']
    (own / "terms.toml").write_text("\n".join(lines) + "\n", "utf8")
    if apart():
        for part in (own, *own.iterdir()):
            os.chown(part, OWNERS, OWNERS)
    return own


def apart() -> bool:
    """Whether what a market ships runs without the right to read the owners' folders."""
    return os.getuid() == 0 and shutil.which(POWERLESS[0]) is not None


class Federation:
    """Processes of a market and its owners, from the start of a ``with`` block to its end.

    Parameters
    ----------
    folder : path, of the market; all logs go there
    schema : path, on which all have agreed
    owners : sequence of paths, folders of :func:`prepare`
    secure : bool
        TLS, and only SuperNodes whose keys are registered.
    simulated : bool
        Flower's simulation in place of SuperNodes: quicker rounds, but nodes that are nobody's.
    trusted : path, optional
        What SuperNodes are given as ``--trusted-entities``.
    app : path, of the Flower app that is run
    """

    def __init__(
        self,
        folder: Path,
        schema: Path,
        owners: Sequence[Path],
        *,
        secure: bool = False,
        simulated: bool = False,
        trusted: Path | None = None,
        app: Path = APP,
    ) -> None:
        self.folder = folder
        self.schema = schema
        self.owners = owners
        self.app = app
        self.secure = secure
        self.simulated = simulated
        self.trusted = trusted
        self.port = _free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._certificates = folder / "certificates"

    # --- processes -------------------------------------------------------------------------------

    def __enter__(self) -> Federation:
        (self.folder / "logs").mkdir(parents=True)
        os.chmod(self.folder, 0o755)
        (home := self.folder / "home").mkdir()
        tls = (
            f'root-certificates = "{self._certificates / "ca.crt"}"'
            if self.secure
            else "insecure = true"
        )
        (home / "config.toml").write_text(
            f'[superlink.market]\naddress = "127.0.0.1:{self.port}"\n{tls}\n', "utf8"
        )
        try:
            self._start_superlink()
            for own in self.owners:
                self.start_owner(own)
                if not self.simulated:
                    self.start_supernode(own)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self.processes):
            self.kill(name)

    def kill(self, name: str) -> None:
        """SIGKILL to a process and all that it has started."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _start(self, name: str, command: Sequence[object]) -> None:
        home = self.folder / f"home-{name}"
        home.mkdir(exist_ok=True)
        with (self.folder / "logs" / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home,
                env=_settings(home),
                start_new_session=True,
            )

    def _start_superlink(self) -> None:
        command: list[object] = [
            BIN / "flower-superlink",
            "--host",
            "127.0.0.1",
            "--port",
            self.port,
        ]
        command += [
            "--disable-runtime-dependency-installation",
            *(["--simulation"] if self.simulated else []),
        ]
        command += ["--database", self.folder / "superlink.sqlite"]
        if self.secure and not self._certificates.exists():
            certificates.make(self._certificates, [own.name for own in self.owners])
        if self.secure:
            for name in ("ca.crt", "server.crt", "server.key"):
                option = {
                    "ca.crt": "--ssl-ca-certfile",
                    "server.crt": "--ssl-certfile",
                    "server.key": "--ssl-keyfile",
                }
                command += [option[name], self._certificates / name]
            command += ["--enable-supernode-auth"]
        else:
            command += ["--insecure"]
        self._start("superlink", command)
        self._wait_for_superlink()
        if self.secure:
            for own in self.owners:
                self.flwr("supernode", "register", self._certificates / f"{own.name}.pub", "market")

    def _wait_for_superlink(self) -> None:
        place = f"http{'s' if self.secure else ''}://127.0.0.1:{self.port}/health"
        trust = (
            ssl.create_default_context(cafile=self._certificates / "ca.crt")
            if self.secure
            else None
        )
        end = time.monotonic() + STARTED
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(place, timeout=5, context=trust):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.2)
        raise RuntimeError(
            f"the SuperLink did not start: see {self.folder / 'logs' / 'superlink.log'}"
        )

    def door(self, own: Path) -> Path:
        """Where an owner is asked."""
        return self.folder / f"door-{own.name}"

    def start_owner(self, own: Path) -> None:
        """The process that has her data; started again after a kill, it goes on with her ledger."""
        self._start(
            f"owner-{own.name}",
            [sys.executable, "-m", "hdpm_owner", "serve", own, "--door", self.door(own)],
        )
        end = time.monotonic() + STARTED
        while not _answers(self.door(own)):
            if time.monotonic() > end or self.processes[f"owner-{own.name}"].poll() is not None:
                raise RuntimeError(f"owner {own.name} did not start: see {self.folder / 'logs'}")
            time.sleep(0.05)

    def start_supernode(self, own: Path) -> None:
        """The process that runs what the market ships."""
        command: list[object] = [*(POWERLESS if apart() else ()), BIN / "flower-supernode"]
        command += ["--superlink", f"127.0.0.1:{self.port}"]
        command += [
            "--host",
            "127.0.0.1",
            "--port",
            _free_port(),
            "--node-config",
            f'door="{self.door(own)}"',
        ]
        if self.secure:
            command += ["--root-certificates", self._certificates / "ca.crt"]
            command += ["--auth-supernode-private-key", self._certificates / f"{own.name}.key"]
        else:
            command += ["--insecure"]
        if self.trusted is not None:
            command += ["--trusted-entities", self.trusted]
        self._start(f"node-{own.name}", command)

    # --- runs ------------------------------------------------------------------------------------

    def flwr(self, *arguments: object) -> str:
        """The output of a command of the market's operator."""
        done = subprocess.run(
            [str(BIN / "flwr"), *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=STARTED,
            env=_settings(self.folder / "home"),
        )
        if done.returncode:
            raise RuntimeError(f"flwr {arguments[0]} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def start_run(
        self, test: Path, folder: Path | None = None, **config: str | float | bool
    ) -> Path:
        """Start a market, or go on with that of a folder (``resume=True``); the folder of its
        book.
        """
        if folder is None:
            folder = self.folder / f"run-{len(list(self.folder.glob('run-*')))}"
            folder.mkdir()
            shutil.copy(self.schema, folder / "schema.toml")
            shutil.copy(self.folder / "key", folder / "key")
        doors = ",".join(str(self.door(own)) for own in self.owners)
        given = (
            {"owners": len(self.owners), "doors": doors}
            | config
            | {"folder": str(folder), "test": str(test)}
        )
        text = " ".join(
            f"{name.replace('_', '-')}={json.dumps(value)}" for name, value in given.items()
        )
        nodes = (
            ["--federation-config", f"num-supernodes={len(self.owners)}"] if self.simulated else []
        )
        self.flwr("run", self.app, "market", "--run-config", text, *nodes)
        return folder

    def result(self, folder: Path, seconds: float = 600.0) -> dict[str, Any]:
        """What a market wrote down at its end."""
        out = folder / "found.json"
        end = time.monotonic() + seconds
        asked = time.monotonic()
        while not out.is_file():
            if time.monotonic() - asked > 10:
                ended = self._ended()
                asked = time.monotonic()
                if (ended and not out.is_file()) or asked > end:
                    raise RuntimeError(
                        f"the market did not end: see {self.folder / 'logs' / 'superlink.log'}"
                    )
            time.sleep(0.2)
        return json.loads(out.read_text("utf8"))

    def rounds(self, folder: Path) -> list[dict[str, Any]]:
        """What the book of a market tells by now, also while it is being written."""
        if not (folder / "market.sqlite").exists():
            return []
        with contextlib.closing(
            sqlite3.connect(f"file:{folder / 'market.sqlite'}?mode=ro", uri=True)
        ) as base:
            try:
                return [
                    json.loads(text)
                    for (text,) in base.execute("SELECT text FROM rounds ORDER BY round")
                ]
            except sqlite3.OperationalError:  # no table yet
                return []

    def _ended(self) -> bool:
        """Whether no run is in work."""
        listed = json.loads(self.flwr("list", "market", "--format", "json"))
        return all(one["status"].startswith("finished") for one in listed["runs"])

    def run(
        self, test: Path, seconds: float = 600.0, **config: str | float | bool
    ) -> dict[str, Any]:
        """A market from its start to its end."""
        return self.result(self.start_run(test, **config), seconds)


def _settings(home: Path) -> dict[str, str]:
    """The environment of a process: nothing of Flower goes into the user's home, or over the
    network.
    """
    flower = {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }
    paths = {
        "PYTHONPATH": f"{APP}{os.pathsep}{APP.parent}",
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    }
    return (
        os.environ
        | flower
        | paths
        | {
            "HOME": str(home),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(door: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(door))
        except OSError:
            return False
        return True


# --- the demonstration --------------------------------------------------------------------------

SELLERS: tuple[dict[str, Any], ...] = (
    {"name": "ann", "family": "linear", "rate": 0.6},
    {"name": "bea", "family": "quadratic", "rate": 0.9},
    {"name": "cem", "family": "square root", "rate": 1.2},
)
SIZES = (50_000, 45_000, 30_000)  # connections of NSL-KDD
ALL = {"epsilon": 8.0, "delta": 1e-5}
STUDY = APP.parent / "data" / "studies" / "federation.json"
BUDGET = 400_000.0  # of the demonstration, for each round


def tables(folder: Path, seed: int = 0) -> tuple[list[pd.DataFrame], Path, Path]:
    """NSL-KDD for three owners, the schema, and a file of test data. The question: is a connection
    an attack?
    """
    from hdpm_book import datasets, standins

    train = datasets.nsl_kdd()
    test = datasets.nsl_kdd("test")
    folder.mkdir(parents=True, exist_ok=True)
    lines = ['row = "one connection"', "[label]", 'name = "kind"', 'classes = ["normal", "attack"]']
    told = standins.nsl_kdd_statistics()
    known = dict(
        zip(
            standins.CATEGORICAL,
            (set(told["protocol_of"].values()), told["protocol_of"], told["flags"]),
            strict=True,
        )
    )
    for name in datasets.NSL_KDD_COLUMNS:
        column = train.features[name]
        lines += ["[[columns]]", f"name = {json.dumps(name)}"]
        if name in standins.CATEGORICAL:
            lines += [f"levels = {json.dumps(sorted(known[name]))}"]
        else:
            low = float(column.min())
            high = float(column.max())
            lines += [f"low = {low}", f"high = {high if high > low else low + 1}"]
    (folder / "schema.toml").write_text("\n".join(lines) + "\n", "utf8")

    def labelled(part: Any) -> pd.DataFrame:
        return part.features.assign(kind=np.where(part.labels == "Normal", "normal", "attack"))

    known_levels = labelled(test)
    for name in standins.CATEGORICAL:  # a service that no owner has
        known_levels[name] = known_levels[name].where(known_levels[name].isin(list(known[name])))
    known_levels.to_csv(folder / "test.csv", index=False)
    rows = np.random.default_rng(seed).permutation(len(train.labels))
    parts = np.split(rows, np.cumsum(SIZES))[: len(SIZES)]
    return (
        [labelled(train).iloc[part] for part in parts],
        folder / "schema.toml",
        folder / "test.csv",
    )


def watch(federation: Federation, run: Path, test: Path, rounds: int) -> list[float]:
    """Print the rounds of a market as they come; the accuracy after each."""
    agreed = Agreement.read(federation.schema)
    data = read_table(test, agreed)
    shown = list[float]()
    print(f"{'round':>5}  {'accuracy':>8}  {'paid':>10}  {'seconds':>7}  who arrived")
    while len(shown) < rounds:
        for held in federation.rounds(run)[len(shown) :]:
            shown.append(float(accuracy(np.array(held["model"]), data.features, data.labels)))
            text = (
                f"{held['round']:>5}  {shown[-1]:>8.3f}  {sum(held['paid']):>10.2f} "
                f" {held['seconds']:>7.1f}"
            )
            print(
                f"{text}  {sum(loss > 0 for loss in held['loss'])} of {len(held['loss'])}",
                flush=True,
            )
        if (run / "found.json").exists() and len(federation.rounds(run)) == len(shown):
            break
        time.sleep(0.5)
    for absence in federation.result(run)["absences"]:
        print(f"without {absence['name']} after round {absence['round']}: {absence['reason']}")
    return shown


def without_noise(
    parts: Sequence[pd.DataFrame], schema: Path, test: Path, rounds: int, learning_rate: float
) -> Array:
    """Accuracies of the same descent with no noise, and those of the two models that always say the
    same.
    """
    agreed = Agreement.read(schema)
    folder = schema.parent
    pd.concat(parts).to_csv(folder / "all.csv", index=False)
    whole, judged = (read_table(file, agreed) for file in (folder / "all.csv", test))
    w = np.zeros((len(agreed.classes), agreed.features))
    clip = 1.0
    spacing = 2.0**-20
    for _ in range(rounds):
        steps = record_steps(w, whole.features, whole.labels, clip, spacing)
        w -= learning_rate * steps * spacing / len(whole.labels)
    share = float((judged.labels == 0).mean())
    return np.array([accuracy(w, judged.features, judged.labels), share, 1 - share])


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--rule",
        default="posted prices",
        help="posted prices, all-in or menus; default: %(default)s",
    )
    parser.add_argument(
        "--budget", type=float, default=BUDGET, help="money for each round; default: %(default)s"
    )
    parser.add_argument(
        "--secure", action="store_true", help="TLS, and SuperNodes with registered keys"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="where all files stay; default: a folder that is deleted at the end",
    )
    parser.add_argument(
        "--store", action="store_true", help=f"write {STUDY.name}, which the book shows"
    )
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the processes end with this one
    plan = {
        "rounds": given.rounds,
        "rule": given.rule,
        "budget": given.budget,
        "learning_rate": 1.0,
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        if not apart():
            print(
                "SuperNodes run as the user to whom the data belong: what is shipped could read"
                " them. On a real"
            )
            print(
                "machine, give an owner a user of her own, as this program does when root"
                " starts it."
            )
        parts, schema, test = tables(folder / "tables")
        table = []
        for unit, noise in (("record", "gaussian"), ("record", "laplace"), ("owner", "laplace")):
            place = folder / f"{unit}-{noise}"
            place.mkdir()
            told = ALL if noise == "gaussian" else {"epsilon": ALL["epsilon"]}
            key = Key(place / "key").public
            pairs = zip(parts, SELLERS, strict=True)
            owners = [
                prepare(place / "owners", part, schema, key, unit=unit, noise=noise, **told, **one)
                for part, one in pairs
            ]
            what = "a record" if unit == "record" else "the whole owner"
            print(f"\n{what} is protected, {noise} noise, epsilon {ALL['epsilon']:g} in all")
            with Federation(place, schema, owners, secure=given.secure) as federation:
                run = federation.start_run(test, unit=unit, noise=noise, **plan)
                accuracies = watch(federation, run, test, given.rounds)
                table.append(
                    (f"{what}, {noise} noise", accuracies[-1] if accuracies else float("nan"))
                )
                ledgers = []
                for own in owners:
                    ledgers.append(place / f"{own.name}.json")
                    ledgers[-1].write_text(json.dumps(ledger.read(own)), "utf8")
            print("who is owed what, by receipts that agree with the owners' ledgers:", flush=True)
            hdpm_market(["receipts", str(run), "--ledgers", *map(str, ledgers)])
        plain, zeros, ones = without_noise(
            parts, schema, test, given.rounds, float(plan["learning_rate"])
        )
        table = [
            ("nobody, no noise", plain),
            *table,
            ("always normal", zeros),
            ("always attack", ones),
        ]
        if given.store:
            from hdpm_book.records import provenance

            record = (
                provenance("flwr", "opendp", "numpy") | {"command": "federation.py --store"} | ALL
            )
            record |= {"rounds": given.rounds, "owners": len(SELLERS)}
            record["rows"] = [
                {"protected": name, "accuracy": round(found, 4)} for name, found in table
            ]
            STUDY.write_text(json.dumps(record, indent=1) + "\n", "utf8")
        print(f"\n{'protected':<34}  accuracy  of that without noise")
        for name, found in table:
            print(f"{name:<34}  {found:>8.3f}  {found / plain:>8.1%}")


if __name__ == "__main__":
    main()
