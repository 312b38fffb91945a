# The data sets: a user's original files, verified and copied, or generated ones of the same shape and format.
from tare.data_generator import GENERATOR


rule prepare_data:
    output:
        directory("results/data/{dataset}/files"),
        status="results/data/{dataset}/dataset.json",
    log:
        "results/data/logs/{dataset}.log",
    params:
        folder=lambda wildcards: getattr(study.data, wildcards.dataset),
        generator=GENERATOR,
    message:
        "Preparing the data set {wildcards.dataset}"
    script:
        "../scripts/prepare_data.py"
