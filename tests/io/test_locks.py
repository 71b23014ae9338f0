"""Locks: one holder at a time, and none after the holder has ended."""

import errno
import os
import signal
import subprocess
import sys
import threading

import pytest

from mercer.io import locks
from mercer.io.locks import FileLock, LockedError

HOLD = """
import sys
from mercer.io.locks import FileLock
lock = FileLock(sys.argv[1])
assert lock.acquire()
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path):
    """Another process that holds the lock."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    command = [sys.executable, "-c", HOLD, str(tmp_path / "file")]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_another_process_is_named_and_its_death_unlocks(other, tmp_path):
    lock = FileLock(tmp_path / "file")
    with pytest.raises(LockedError) as caught:
        lock.acquire()
    assert caught.value.owner.startswith(f"process {other.pid} on {locks.socket.gethostname()} since 2")
    assert caught.value.path == tmp_path / ".file.lock"
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert os.listdir(tmp_path) == [".file.lock"]  # left over, and no obstacle
    assert lock.acquire()
    assert str(os.getpid()) in (tmp_path / ".file.lock").read_text()
    lock.release()
    assert os.listdir(tmp_path) == []


def test_threads_exclude_each_other(tmp_path):
    one, two = FileLock(tmp_path / "file"), FileLock(tmp_path / "file")
    assert one.acquire()
    assert one.acquire()  # still there
    failed = []

    def attempt():
        try:
            two.acquire()
        except LockedError as error:
            failed.append(error.owner)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert failed
    assert failed[0].startswith(f"process {os.getpid()} on ")
    one.release()
    assert two.acquire()
    one.release()  # nothing to release
    assert (tmp_path / ".file.lock").exists()
    two.release()


def test_a_lock_whose_file_was_removed_is_taken_again(tmp_path):
    one, two = FileLock(tmp_path / "file"), FileLock(tmp_path / "file")
    assert one.acquire()
    (tmp_path / ".file.lock").unlink()
    assert one.acquire()
    with pytest.raises(LockedError):
        two.acquire()
    (tmp_path / ".file.lock").unlink()
    assert two.acquire()
    with pytest.raises(LockedError):
        one.acquire()
    one.release()
    assert (tmp_path / ".file.lock").exists()  # that of the other
    two.release()


def test_a_file_that_is_removed_while_it_is_locked_is_locked_again(tmp_path, monkeypatch):
    """Another process releases between the opening and the locking of the file: the lock would be on no file."""
    path, plain, calls = tmp_path / ".file.lock", locks.fcntl.flock, []

    def flock(descriptor, flags):
        if not calls:
            path.unlink()
        calls.append(1)
        plain(descriptor, flags)

    monkeypatch.setattr(locks.fcntl, "flock", flock)
    lock = FileLock(tmp_path / "file")
    assert lock.acquire()
    assert len(calls) == 2
    monkeypatch.undo()
    with pytest.raises(LockedError):
        FileLock(tmp_path / "file").acquire()
    lock.release()


def test_links_and_files_of_others_are_not_written_to(tmp_path):
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    (tmp_path / ".file.lock").symlink_to(precious)
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the message is that of the system
        FileLock(tmp_path / "file").acquire()
    assert caught.value.errno == errno.ELOOP
    (tmp_path / ".file.lock").unlink()
    os.link(precious, tmp_path / ".file.lock")
    lock = FileLock(tmp_path / "file")
    assert lock.acquire()
    with pytest.raises(LockedError, match="another process"):  # what the file says is not repeated
        FileLock(tmp_path / "file").acquire()
    lock.release()
    assert precious.read_text() == "precious"


def test_file_systems_and_systems_without_locks(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, "no locks")

    with monkeypatch.context() as patch:
        patch.setattr(locks.fcntl, "flock", unsupported)
        assert not FileLock(tmp_path / "file").acquire()
    monkeypatch.setattr(locks, "fcntl", None)
    assert not FileLock(tmp_path / "file").acquire()
