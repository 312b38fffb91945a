# The software of each stack: packages → base → image → root filesystem, and the same locks → the host's venv.
# Every rule ends with a status file, also when it failed: the report says why, and the rest goes on.
from tare.software.workflow import (
    get_recipe_files,
    get_wheel,
    software_code,
    worker_code,
)


rule fetch_debs:
    input:
        lock=lambda wildcards: f"envs/{lock_of(wildcards)}.debs.lock",
        code=software_code("apt", "debs", "locks"),
    output:
        "results/software/{stack}/debs.json",
    log:
        "results/software/{stack}/logs/fetch_debs.log",
    params:
        recipe=recipe_of,
        lock=lock_of,
        base=study.software.base.model_dump(),
    script:
        "../scripts/fetch_debs.py"


rule fetch_wheels:
    input:
        lock=lambda wildcards: f"envs/{lock_of(wildcards)}.lock.txt",
        code=software_code("locks", "wheels"),
    output:
        "results/software/{stack}/wheels.json",
    log:
        "results/software/{stack}/logs/fetch_wheels.log",
    params:
        recipe=recipe_of,
        lock=lock_of,
        base=study.software.base.model_dump(),
    script:
        "../scripts/fetch_wheels.py"


rule build_base:
    input:
        "results/software/base/debs.json",
        lock="envs/base.debs.lock",
        recipe="containers/base/Dockerfile",
        code=software_code("base", "contents", "engine", "normalise"),
    output:
        "results/software/base/base.json",
    log:
        "results/software/base/logs/build_base.log",
    params:
        base=study.software.base.model_dump(),
    script:
        "../scripts/build_base.py"


rule build_image:
    input:
        "results/software/base/base.json",
        "results/software/{stack}/debs.json",
        "results/software/{stack}/wheels.json",
        locks=lambda wildcards: multiext(
            f"envs/{lock_of(wildcards)}", ".lock.txt", ".debs.lock"
        ),
        recipe=lambda wildcards: get_recipe_files(recipe_of(wildcards)),
        code=software_code(
            "contents", "context", "docker_archive", "engine", "image", "normalise"
        ),
    output:
        "results/software/{stack}/image.json",
    log:
        "results/software/{stack}/logs/build_image.log",
    params:
        recipe=recipe_of,
        lock=lock_of,
        base=study.software.base.model_dump(),
    script:
        "../scripts/build_image.py"


rule extract_rootfs:
    input:
        image="results/software/{stack}/image.json",
        code=software_code("rootfs"),
    output:
        "results/software/{stack}/rootfs.json",
    log:
        "results/software/{stack}/logs/extract_rootfs.log",
    script:
        "../scripts/extract_rootfs.py"


rule create_venv:
    input:
        "results/software/{stack}/wheels.json",
        locks=lambda wildcards: multiext(
            f"envs/{lock_of(wildcards)}", ".lock.txt", ".debs.lock", ".debs.in"
        ),
        code=software_code("venv"),
    output:
        "results/software/{stack}/venv.json",
    log:
        "results/software/{stack}/logs/create_venv.log",
    params:
        lock=lock_of,
    script:
        "../scripts/create_venv.py"


rule build_worker:
    input:
        worker_code(),
        code=software_code("worker_wheel"),
    output:
        get_wheel(),
    log:
        "results/software/worker/logs/build_worker.log",
    script:
        "../scripts/build_worker.py"
