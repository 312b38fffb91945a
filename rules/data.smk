rule prepare_data:
    output:
        "results/data/{dataset}/dataset.json",
        directory("results/data/{dataset}/files"),
    log:
        "results/data/logs/{dataset}.log",
    params:
        folder=lambda wildcards: getattr(study.data, wildcards.dataset),
    script:
        "../scripts/prepare_data.py"
