# The software of each stack: packages → base → image → root filesystem, and the same locks → the host's venv.
# Code that builds is no input: what it builds is known by its content, and a mended download measures nothing anew.
# Every rule ends with a status file, also when it failed: the report says why, and the rest goes on.


rule fetch_debs:
    input:
        lock=lambda wildcards: f"envs/{lock_of(wildcards)}.debs.lock",
    output:
        "results/software/{stack}/debs.json",
    log:
        "results/software/{stack}/logs/fetch_debs.log",
    params:
        recipe=recipe_of,
        lock=lock_of,
        base=study.software.base.model_dump(),
    message:
        "Fetching the Debian packages of {wildcards.stack}"
    script:
        "../scripts/fetch_debs.py"


rule fetch_wheels:
    input:
        lock=lambda wildcards: f"envs/{lock_of(wildcards)}.lock.txt",
    output:
        "results/software/{stack}/wheels.json",
    log:
        "results/software/{stack}/logs/fetch_wheels.log",
    params:
        recipe=recipe_of,
        lock=lock_of,
        base=study.software.base.model_dump(),
    message:
        "Fetching the wheels of {wildcards.stack}"
    script:
        "../scripts/fetch_wheels.py"


rule build_base:
    input:
        "results/software/base/debs.json",
        lock="envs/base.debs.lock",
        recipe="containers/base/Dockerfile",
    output:
        "results/software/base/base.json",
    log:
        "results/software/base/logs/build_base.log",
    params:
        base=study.software.base.model_dump(),
    message:
        "Making the base image from Debian packages"
    script:
        "../scripts/build_base.py"


rule build_image:
    input:
        lambda wildcards: get_base(lock_of(wildcards)),
        "results/software/{stack}/debs.json",
        "results/software/{stack}/wheels.json",
        locks=lambda wildcards: multiext(
            f"envs/{lock_of(wildcards)}", ".lock.txt", ".debs.lock"
        ),
        recipe=lambda wildcards: recipe_files(recipe_of(wildcards)),
    output:
        "results/software/{stack}/image.json",
    log:
        "results/software/{stack}/logs/build_image.log",
    params:
        recipe=recipe_of,
        lock=lock_of,
        base=study.software.base.model_dump(),
    message:
        "Building the image of {wildcards.stack}"
    script:
        "../scripts/build_image.py"


rule extract_rootfs:
    input:
        image="results/software/{stack}/image.json",
    output:
        "results/software/{stack}/rootfs.json",
    log:
        "results/software/{stack}/logs/extract_rootfs.log",
    message:
        "Extracting the root filesystem of {wildcards.stack}"
    script:
        "../scripts/extract_rootfs.py"


rule create_venv:
    input:
        "results/software/{stack}/wheels.json",
        locks=lambda wildcards: multiext(
            f"envs/{lock_of(wildcards)}", ".lock.txt", ".debs.lock", ".debs.in"
        ),
    output:
        "results/software/{stack}/venv.json",
    log:
        "results/software/{stack}/logs/create_venv.log",
    params:
        lock=lock_of,
    message:
        "Making {wildcards.stack} ready on the host"
    script:
        "../scripts/create_venv.py"


rule build_native:
    input:
        "results/software/native/wheels.json",
        lock="envs/native.lock.txt",
        sources=lambda wildcards: native_sources(wildcards.program),
    output:
        status="results/software/native/{program}.json",
        program="results/software/native/{program}",
    log:
        "results/software/native/logs/build_{program}.log",
    message:
        "Compiling {wildcards.program}"
    script:
        "../scripts/build_native.py"


rule build_worker:
    input:
        worker_code(),
    output:
        get_wheel(),
    log:
        "results/software/worker/logs/build_worker.log",
    message:
        "Building the worker wheel"
    script:
        "../scripts/build_worker.py"
