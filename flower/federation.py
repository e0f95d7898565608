"""A whole federation on this machine, for `make federation` and the tests.

One SuperLink, and for each owner two processes: hers, which alone opens her data, and a SuperNode,
in which what the market ships is run. Started as root, the folders of the owners belong to a user
of their own, and SuperNodes lose all rights of root, so that what is shipped cannot read them;
otherwise all processes have one user, and it can. All of it listens on loopback, and ends with this
process.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import certificates
import pandas as pd

from hdpm_owner import receipts
from hdpm_owner.charter import Agreed
from hdpm_owner.commands import main as hdpm_owner
from hdpm_owner.market_commands import main as hdpm_market

APP = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
PLANNED = tuple(Agreed.__dataclass_fields__)  # settings of a charter
OWNERS = 20_001  # number of the user to whom the owners' folders belong
POWERLESS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
STARTED = 60.0  # seconds until a server has to answer


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> bool:
    """Whether a condition holds within some time."""
    end = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return holds


def prepare(folder: Path, table: pd.DataFrame, schema: Path, **terms: Any) -> Path:
    """Make the folder of an owner, closed to everybody else, from her table, as ``hdpm-owner init``
    makes it; `terms` are those of ``terms.toml``.
    """
    own = folder / terms["name"]
    file = folder / f"{terms['name']}.csv"
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(file, index=False)
    with contextlib.redirect_stdout(io.StringIO()):  # her report
        hdpm_owner(["init", str(file), "--schema", str(schema), "--folder", str(own)])
    lines = [f"{name} = {json.dumps(value)}" for name, value in terms.items()]
    (own / "terms.toml").write_text("\n".join(lines) + "\n", "utf8")
    if apart():
        for part in (own, *own.iterdir()):
            os.chown(part, OWNERS, OWNERS)
    return own


def said(main: Callable[[list[str]], None], *words: object) -> str:
    """Run a command, and return what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        main([str(word) for word in words])
    return printed.getvalue().strip()


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
    """

    def __init__(
        self,
        folder: Path,
        schema: Path,
        owners: Sequence[Path],
        *,
        secure: bool = False,
        simulated: bool = False,
    ) -> None:
        self.folder = folder
        self.schema = schema
        self.owners = owners
        self.app = APP  # the Flower app that is run
        self.secure = secure
        self.simulated = simulated
        self.port = _free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._certificates = folder / "certificates"

    # --- processes -------------------------------------------------------------------------------

    def __enter__(self) -> Federation:
        (self.folder / "logs").mkdir(parents=True)
        os.chmod(self.folder, 0o755)
        (home := self.folder / "home").mkdir()
        root = f'root-certificates = "{self._certificates / "ca.crt"}"'
        lines = ["[superlink.market]", f'address = "127.0.0.1:{self.port}"']
        lines.append(root if self.secure else "insecure = true")
        (home / "config.toml").write_text("\n".join(lines), "utf8")
        try:
            self._start_superlink()
            for own in self.owners:
                self.start_owner(own)
                if not self.simulated:
                    self.start_supernode(own)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.processes):
            self.kill(name)

    def kill(self, name: str) -> None:
        """SIGKILL to a process and all that it has started."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _start(self, name: str, command: Sequence[object], *place: Any) -> None:
        """Start a process, and wait until it answers, if it has an address to answer at."""
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
        ended = self.processes[name].poll
        wait_for(lambda: not place or _answers(*place) or ended() is not None, STARTED)
        if place and not _answers(*place):
            raise RuntimeError(f"{name} did not start: see {self.folder / 'logs'}")

    def _start_superlink(self) -> None:
        command: list[object] = [BIN / "flower-superlink", "--host", "127.0.0.1"]
        command += ["--port", self.port, "--database", self.folder / "superlink.sqlite"]
        command += ["--disable-runtime-dependency-installation"]
        if self.simulated:
            command += ["--simulation"]
        if self.secure:
            if not self._certificates.exists():
                certificates.make(self._certificates, [own.name for own in self.owners])
            parts = {"ca-certfile": "ca.crt", "certfile": "server.crt", "keyfile": "server.key"}
            for option, name in parts.items():
                command += [f"--ssl-{option}", self._certificates / name]
        command += ["--enable-supernode-auth" if self.secure else "--insecure"]
        self._start("superlink", command, socket.AF_INET, ("127.0.0.1", self.port))
        if self.secure:
            for own in self.owners:
                self.flwr("supernode", "register", self._certificates / f"{own.name}.pub", "market")

    def door(self, own: Path) -> Path:
        """Where an owner is asked."""
        return self.folder / f"door-{own.name}"

    def start_owner(self, own: Path) -> None:
        """Start the process that has her data; started again after a kill, it goes on with her
        ledger.
        """
        door = self.door(own)
        command = [BIN / "hdpm-owner", "serve", own, "--door", door]
        self._start(f"owner-{own.name}", command, socket.AF_UNIX, str(door))

    def start_supernode(self, own: Path) -> None:
        """Start the process that runs what the market ships."""
        command: list[object] = [*(POWERLESS if apart() else ()), BIN / "flower-supernode"]
        command += ["--superlink", f"127.0.0.1:{self.port}", "--host", "127.0.0.1"]
        command += ["--port", _free_port(), "--node-config", f'door="{self.door(own)}"']
        if self.secure:
            command += ["--root-certificates", self._certificates / "ca.crt"]
            command += ["--auth-supernode-private-key", self._certificates / f"{own.name}.key"]
        else:
            command += ["--insecure"]
        self._start(f"node-{own.name}", command)

    # --- runs ------------------------------------------------------------------------------------

    def flwr(self, *arguments: object) -> str:
        """Run, and return the output of, a command of the market's operator."""
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
        """Start a market, or with ``resume=True`` go on with that of a folder; that folder."""
        if folder is None:
            folder = self.folder / f"run-{len(list(self.folder.glob('run-*')))}"
            folder.mkdir(mode=0o700)
            shutil.copy(self.folder / "key", folder / "key")
            plan = {name: config.pop(name) for name in PLANNED if name in config}
            words = [f"--{name.replace('_', '-')}={value}" for name, value in plan.items()]
            owners = [said(hdpm_owner, "key", own) for own in self.owners]
            words += ["--schema", self.schema, "--owners", *owners]
            said(hdpm_market, "invite", folder, *words)
            for own in self.owners:
                said(hdpm_owner, "join", own, folder / "invitation.json")
        config = {name: value for name, value in config.items() if name not in PLANNED}
        doors = ",".join(str(self.door(own)) for own in self.owners)
        given = {"owners": len(self.owners), "doors": doors} | config
        given |= {"folder": str(folder), "test": str(test)}
        text = " ".join(f"{name.replace('_', '-')}={json.dumps(v)}" for name, v in given.items())
        nodes = ["--federation-config", f"num-supernodes={len(self.owners)}"] * self.simulated
        self.flwr("run", self.app, "market", "--run-config", text, *nodes)
        return folder

    def result(self, folder: Path, seconds: float = 600.0) -> dict[str, Any]:
        """Return what a market wrote down at its end."""
        out = folder / "found.json"
        end = time.monotonic() + seconds
        while not wait_for(out.is_file, 10):
            if not ((self.unfinished() and time.monotonic() < end) or out.is_file()):
                raise RuntimeError(f"the market did not end: see {self.folder / 'logs'}")
        return json.loads(out.read_text("utf8"))

    def rounds(self, folder: Path) -> list[dict[str, Any]]:
        """Return what the book of a market tells by now, also while it is being written."""
        try:
            return receipts.rounds(folder)
        except (ValueError, sqlite3.OperationalError):  # no book yet, or no table
            return []

    def unfinished(self) -> list[str]:
        """Return the runs in work."""
        listed = json.loads(self.flwr("list", "market", "--format", "json"))["runs"]
        return [one["run-id"] for one in listed if not one["status"].startswith("finished")]


def _settings(home: Path) -> dict[str, str]:
    """Return the environment of a process of Flower, which leaves the user's home alone."""
    names = "FLWR_TELEMETRY_ENABLED FLWR_DISABLE_UPDATE_CHECK OMP_NUM_THREADS OPENBLAS_NUM_THREADS"
    found = os.environ | dict(zip(names.split(), "0111", strict=True))
    found |= {"HOME": str(home), "FLWR_HOME": str(home)}
    found |= {"PYTHONPATH": f"{APP}{os.pathsep}{APP.parent}"}
    return found | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(family: int, address: Any) -> bool:
    with socket.socket(family) as probe:
        return probe.connect_ex(address) == 0
