"""A whole federation on this machine: ``make federation``, or ``python flower/federation.py --rounds 5``.

One SuperLink, and for each owner two processes: hers, which alone opens her data, and a SuperNode, in which what the
market ships is run. Started as root, the folders of the owners belong to a user of their own, and SuperNodes lose all
rights of root, so that what is shipped cannot read them; otherwise all processes have one user, and it can. All of it
listens on loopback, and ends with this process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import certificates
import numpy as np
from numpy.typing import NDArray

from hdpm_owner.owner import Terms

APP = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
OWNERS = 20_001  # number of the user to whom the owners' folders belong
POWERLESS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
BUDGET = 400_000.0  # of the demonstration, for each round
STARTED = 60.0  # seconds until a server has to answer


def prepare(folder: Path, terms: Terms, features: NDArray, labels: NDArray) -> Path:
    """The folder of an owner, closed to everybody else."""
    own = folder / terms.name
    own.mkdir(mode=0o700, parents=True)
    lines = [f"{name} = {json.dumps(value)}" for name, value in asdict(terms).items() if value is not None]
    (own / "terms.toml").write_text("\n".join(lines) + "\n", "utf8")
    np.savez(own / "data.npz", features=np.asarray(features, dtype=float), labels=labels)
    if apart():
        for file in (own, *own.iterdir()):
            os.chown(file, OWNERS, OWNERS)
    return own


def apart() -> bool:
    """Whether what a market ships runs without the right to read the owners' folders."""
    return os.getuid() == 0 and shutil.which(POWERLESS[0]) is not None


class Federation:
    """Processes of a market and its owners, from the start of a ``with`` block to its end.

    Parameters
    ----------
    folder : path, of the market; all logs go there
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
        owners: Sequence[Path],
        *,
        secure: bool = False,
        simulated: bool = False,
        trusted: Path | None = None,
        app: Path = APP,
    ) -> None:
        self.folder, self.owners, self.app = folder, owners, app
        self.secure, self.simulated, self.trusted = secure, simulated, trusted
        self.port = _free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._certificates = folder / "certificates"

    # --- processes ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Federation:
        (self.folder / "logs").mkdir(parents=True)
        os.chmod(self.folder, 0o755)
        (home := self.folder / "home").mkdir()
        tls = f'root-certificates = "{self._certificates / "ca.crt"}"' if self.secure else "insecure = true"
        (home / "config.toml").write_text(f'[superlink.market]\naddress = "127.0.0.1:{self.port}"\n{tls}\n', "utf8")
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

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
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
        command: list[object] = [BIN / "flower-superlink", "--host", "127.0.0.1", "--port", self.port]
        command += ["--disable-runtime-dependency-installation", *(["--simulation"] if self.simulated else [])]
        if self.secure:
            certificates.make(self._certificates, [own.name for own in self.owners])
            for name in ("ca.crt", "server.crt", "server.key"):
                option = {"ca.crt": "--ssl-ca-certfile", "server.crt": "--ssl-certfile", "server.key": "--ssl-keyfile"}
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
        trust = ssl.create_default_context(cafile=self._certificates / "ca.crt") if self.secure else None
        end = time.monotonic() + STARTED
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(place, timeout=5, context=trust):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.2)
        raise RuntimeError(f"the SuperLink did not start: see {self.folder / 'logs' / 'superlink.log'}")

    def door(self, own: Path) -> Path:
        """Where an owner is asked."""
        return self.folder / f"door-{own.name}"

    def start_owner(self, own: Path) -> None:
        """The process that has her data; started again after a kill, it goes on with her ledger."""
        self._start(f"owner-{own.name}", [sys.executable, "-m", "hdpm_owner", own, "--door", self.door(own)])
        end = time.monotonic() + STARTED
        while not _answers(self.door(own)):
            if time.monotonic() > end or self.processes[f"owner-{own.name}"].poll() is not None:
                raise RuntimeError(f"owner {own.name} did not start: see {self.folder / 'logs'}")
            time.sleep(0.05)

    def start_supernode(self, own: Path) -> None:
        """The process that runs what the market ships."""
        command: list[object] = [*(POWERLESS if apart() else ()), BIN / "flower-supernode"]
        command += ["--superlink", f"127.0.0.1:{self.port}"]
        command += ["--host", "127.0.0.1", "--port", _free_port(), "--node-config", f'door="{self.door(own)}"']
        if self.secure:
            command += ["--root-certificates", self._certificates / "ca.crt"]
            command += ["--auth-supernode-private-key", self._certificates / f"{own.name}.key"]
        else:
            command += ["--insecure"]
        if self.trusted is not None:
            command += ["--trusted-entities", self.trusted]
        self._start(f"node-{own.name}", command)

    # --- runs ---------------------------------------------------------------------------------------------------------

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

    def start_run(self, test: Path, **config: str | float) -> Path:
        """Start a market; the file in which its result will be."""
        out = self.folder / f"found-{len(list(self.folder.glob('run-*')))}.json"
        out.with_name(out.stem.replace("found", "run")).touch()
        doors = ",".join(str(self.door(own)) for own in self.owners)
        given = {"owners": len(self.owners), "doors": doors} | config | {"out": str(out), "test": str(test)}
        text = " ".join(f"{name.replace('_', '-')}={json.dumps(value)}" for name, value in given.items())
        nodes = ["--federation-config", f"num-supernodes={len(self.owners)}"] if self.simulated else []
        self.flwr("run", self.app, "market", "--run-config", text, *nodes)
        return out

    def result(self, out: Path, seconds: float = 600.0) -> dict[str, Any]:
        """What a market wrote down at its end."""
        end, asked = time.monotonic() + seconds, time.monotonic()
        while not out.is_file():
            if time.monotonic() - asked > 10:
                ended, asked = self._ended(), time.monotonic()
                if (ended and not out.is_file()) or asked > end:
                    raise RuntimeError(f"the market did not end: see {self.folder / 'logs' / 'superlink.log'}")
            time.sleep(0.2)
        return json.loads(out.read_text("utf8"))

    def _ended(self) -> bool:
        """Whether no run is in work."""
        listed = json.loads(self.flwr("list", "market", "--format", "json"))
        return all(one["status"].startswith("finished") for one in listed["runs"])

    def run(self, test: Path, seconds: float = 600.0, **config: str | float) -> dict[str, Any]:
        """A market from its start to its end."""
        return self.result(self.start_run(test, **config), seconds)


def _settings(home: Path) -> dict[str, str]:
    """The environment of a process: nothing of Flower goes into the user's home, or over the network."""
    flower = {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    paths = {"PYTHONPATH": f"{APP}{os.pathsep}{APP.parent}", "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    return os.environ | flower | paths | {"HOME": str(home), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


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


# --- the demonstration ------------------------------------------------------------------------------------------------

COLUMNS = ("logged_in", "serror_rate", "dst_host_srv_count")  # of NSL-KDD; few, for noise falls on every parameter
SHAPE: dict[str, Any] = {"classes": 2, "features": len(COLUMNS) + 1}
SELLERS = (
    Terms("ann", "linear", rate=0.6, limit=4.0, total=30.0, **SHAPE),
    Terms("bea", "quadratic", rate=0.9, limit=3.0, total=12.0, **SHAPE),
    Terms("cem", "square root", rate=1.2, limit=2.0, total=12.0, **SHAPE),
)


def shards(folder: Path, sizes: Sequence[int] = (50_000, 45_000, 30_000), seed: int = 0) -> tuple[list[Path], Path]:
    """Folders of three owners who share NSL-KDD, and a file with test data. The question: is a connection an attack?"""
    from hdpm_book import datasets, standins

    train, test = datasets.nsl_kdd(), datasets.nsl_kdd("test")
    X, y, X_test, y_test = datasets.nsl_kdd_design(train, test)
    numbers = [c for c in datasets.NSL_KDD_COLUMNS if c not in standins.CATEGORICAL]
    columns = [*map(numbers.index, COLUMNS), X.shape[1] - 1]
    rows = np.random.default_rng(seed).permutation(len(y))
    owners = []
    for terms, part in zip(SELLERS, np.split(rows, np.cumsum(sizes))[: len(sizes)], strict=True):
        owners.append(prepare(folder, terms, X[part][:, columns], (y[part] > 0).astype(int)))
    np.savez(folder / "test.npz", features=X_test[:, columns].astype(float), labels=(y_test > 0).astype(int))
    return owners, folder / "test.npz"


def show(found: dict[str, Any], owners: Sequence[Path], folder: Path) -> None:
    """Print the rounds, what each owner sold, and her own ledger."""
    print(f"{'round':>5}  {'accuracy':>8}  {'paid':>8}  {'seconds':>7}  who arrived")
    print(f"{0:>5}  {found['accuracy'][0]:>8.3f}")
    for number, held in enumerate(found["rounds"], 1):
        names = [name for name, loss in zip(found["names"], held["loss"], strict=True) if loss]
        text = f"{found['accuracy'][number]:>8.3f}  {sum(held['paid']):>8.2f}  {held['seconds']:>7.1f}"
        print(f"{number:>5}  {text}  {', '.join(names) or 'nobody'}")
    for reason in found["refused"]:
        print(f"refused: {reason}")
    for own in owners:
        print(f"\nledger of {own.name}, in {own}")
        subprocess.run([sys.executable, "-m", "hdpm_owner", own, "--ledger"], env=_settings(folder), check=True)


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rule", default="posted prices", help="posted prices, all-in or menus; default: %(default)s")
    parser.add_argument("--budget", type=float, default=BUDGET, help="money for each round; default: %(default)s")
    parser.add_argument("--secure", action="store_true", help="TLS, and SuperNodes with registered keys")
    parser.add_argument(
        "--folder", type=Path, help="where all files stay; default: a folder that is deleted at the end"
    )
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the processes end with this one
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        if not apart():
            print("SuperNodes run as the user to whom the data belong: what is shipped could read them. On a real")
            print("machine, give an owner a user of her own, as this program does when root starts it.")
        owners, test = shards(folder / "owners")
        with Federation(folder / "market", owners, secure=given.secure) as federation:
            print(f"{len(owners)} owners, a SuperLink on port {federation.port}; logs in {folder / 'market' / 'logs'}")
            found = federation.run(test, rounds=given.rounds, rule=given.rule, budget=given.budget)
        show(found, owners, folder)


if __name__ == "__main__":
    main()
