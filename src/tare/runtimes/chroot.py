"""`chroot` and `chroot-userns`: the image's root filesystem on the host's kernel, without any isolation.

The root filesystem is read-only (a run would dirty it for the next) and lies in the cache, outside every
output of the workflow; everything mounted on it lives in a mount namespace that dies with the run.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from pathlib import Path

from tare.runtimes import launch, mounts
from tare.runtimes.base import INSIDE_DATA, INSIDE_OUTPUT, LaunchSpec, Running, RunRequest, Stack, Unavailable
from tare.runtimes.process import become_user, start_process

#: folders that every root filesystem has, because something is mounted on them
POINTS = ("proc", "sys", "dev", "tmp", INSIDE_OUTPUT.strip("/"), INSIDE_DATA.strip("/"))


class Chroot:
    """Starts the worker in a stack's root filesystem, as root of the machine (``name`` chroot)."""

    name = "chroot"
    user_namespace = False

    def unavailable(self, stack: Stack) -> Unavailable | None:
        """Return why this user cannot enter the stack's root filesystem, or None."""
        return self._privilege() or unusable_root(stack)

    def _privilege(self) -> Unavailable | None:
        return root_privilege(
            self.name, "run as root, or measure `chroot-userns` instead (runtimes: in the config)"
        )

    def specify(self, request: RunRequest) -> LaunchSpec:
        """Return the launch in the root filesystem; the mounts are part of it, as data. Pure."""
        root = str(request.stack.rootfs)
        data = None if request.data is None else str(request.data)
        return LaunchSpec(
            runtime=self.name,
            kind="chroot",
            argv=launch.argv(launch.INSIDE_PYTHON, INSIDE_OUTPUT),
            environment=launch.environment(request, INSIDE_OUTPUT),
            cwd=INSIDE_OUTPUT,
            output=INSIDE_OUTPUT,
            data=None if data is None else INSIDE_DATA,
            files=launch.files(INSIDE_OUTPUT),
            network="loopback",
            options={
                **launch.user_options(request),
                **launch.streams(request.output),
                "root": root,
                "mounts": mounts.plan(root, str(request.output), data, new_proc=not self.user_namespace),
                "user_namespace": self.user_namespace,
            },
        )

    def start(self, spec: LaunchSpec) -> Running:
        """Fork, mount, chroot, execute."""
        options = spec.options

        def prepare() -> None:
            if options["user_namespace"]:
                become_user(options["uid"], options["gid"])  # the namespace maps this user to itself
            mounts.enter(options["root"], options["mounts"], options["user_namespace"])

        return start_process(spec, prepare)


class ChrootUserns(Chroot):
    """The unprivileged form: the same in a user namespace that maps the user to itself."""

    name = "chroot-userns"
    user_namespace = True

    def _privilege(self) -> Unavailable | None:
        why = _try_mount(True, os.geteuid())
        return (
            None if why is None else Unavailable(f"user namespaces do not work here: {why}", _userns_remedy())
        )


def root_privilege(runtime: str, remedy: str) -> Unavailable | None:
    """Return why this user is not root enough to mount, or None; ``remedy`` is what a user who is not root can do."""
    if os.geteuid() != 0:
        return Unavailable(f"{runtime} needs root", remedy)
    why = _try_mount(False, 0)
    return Unavailable(f"this root may not mount: {why}", "run where root has CAP_SYS_ADMIN") if why else None


def unusable_root(stack: Stack) -> Unavailable | None:
    """Return why the stack's root filesystem cannot be entered, or None."""
    if stack.rootfs is None:
        return launch.missing(stack, "rootfs")
    absent = [point for point in POINTS if not (stack.rootfs / point).is_dir()]
    if absent:
        return Unavailable(
            f"the root filesystem {stack.rootfs} of stack {stack.name} lacks /{', /'.join(absent)}",
            f"delete results/software/{stack.name}/rootfs.json and that folder, and run `make retry`",
            lost=True,
        )
    return None


@functools.lru_cache(maxsize=4)
def _try_mount(user_namespace: bool, uid: int) -> str | None:
    """Return why a child cannot enter namespaces and mount there, or None; tried once per process."""
    del uid  # part of the key only
    read, write = os.pipe()

    def attempt() -> None:
        try:
            mounts.enter("/", [{"kind": "tmpfs", "target": tempfile.gettempdir()}], user_namespace)
        except OSError as error:
            os.write(write, str(error.strerror).encode())
            raise

    try:
        subprocess.run(["/bin/true"], preexec_fn=attempt, check=True, cwd="/")
    except (OSError, subprocess.SubprocessError) as error:
        os.set_blocking(read, False)
        try:
            return os.read(read, 4096).decode("utf-8", "replace")
        except BlockingIOError:
            return str(error)
    finally:
        os.close(read)
        os.close(write)
    return None


def _userns_remedy(sysctl: Path = Path("/proc/sys")) -> str:
    """Return the command that lets users make user namespaces, by the switch that forbids it."""
    for name, value in (
        ("kernel.unprivileged_userns_clone", "1"),
        ("user.max_user_namespaces", "65536"),
        ("kernel.apparmor_restrict_unprivileged_userns", "0"),
    ):
        path = sysctl / name.replace(".", "/")
        forbidding = "1" if name.startswith("kernel.apparmor") else "0"
        if path.exists() and path.read_text(encoding="ascii").strip() == forbidding:
            return f"sudo sysctl {name}={value}"
    return "have the administrator allow user namespaces, or leave `chroot-userns` out of `runtimes:`"
