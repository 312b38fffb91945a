rule measure_block:
    input:
        unpack(get_software),
        unpack(get_dataset),
        wheel=get_wheel(),
    output:
        "results/{study}/blocks/{cell}/{block}.parquet",
    log:
        "results/{study}/logs/measure_block/{cell}/{block}.log",
    priority: 50
    resources:
        machine=100,
    params:
        measuring=get_measuring,
    message:
        "Measuring {wildcards.cell}, block {wildcards.block}"
    shell:
        "python scripts/measure_block.py"
        " --study {wildcards.study:q} --cell {wildcards.cell:q} --block {wildcards.block}"
        " --input {input:q} --measuring {params.measuring:q} --output {output:q} 2> >(tee -i {log:q} >&2)"
