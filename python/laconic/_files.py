"""Files that take their names only when they are whole."""

from __future__ import annotations

import os
import pathlib
import secrets
import stat


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file beside `path` and renames it, so that whoever reads finds the old file or the whole new one.

    The file beside it has a random name and is made anew, so that no link that lies in wait is followed. What is there
    and is no plain file (a device, a pipe, a link) is written into and stays what it is.
    """
    target = pathlib.Path(path)
    if _is_written_through(target):
        # /dev/stdout may be a file that has something in it already.
        device = target.as_posix().startswith(("/dev/", "/proc/"))
        with open(target, "a" if device else "w", encoding="utf-8") as file:
            file.write(text)
        return
    beside = target.with_name(f"{target.name}.tmp{secrets.token_hex(8)}")
    try:
        made = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        try:
            with os.fdopen(made, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            beside.replace(target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:  # the name that the caller knows
        raise OSError(error.errno, error.strerror, str(target)) from error


def _is_written_through(path: pathlib.Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISDIR(mode) and (not stat.S_ISREG(mode) or path.is_symlink())
