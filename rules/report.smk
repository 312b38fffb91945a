# Tables and figures → the report, and the last word: whether the study is whole.


rule write_report:
    input:
        runs="results/{study}/tables/runs.parquet",
        samples="results/{study}/tables/samples.parquet",
        comparisons="results/{study}/tables/comparisons.parquet",
        overhead="results/{study}/figures/overhead.svg",
        blocks="results/{study}/figures/blocks.svg",
        epochs="results/{study}/figures/epochs.svg",
        startup="results/{study}/figures/startup.svg",
        breakdown="results/{study}/figures/breakdown.svg",
        ladder="results/{study}/figures/ladder.svg",
        options="results/{study}/figures/options.svg",
        templates=multiext(
            "src/tare/analysis/templates/",
            "report.html.j2",
            "report.css",
            "summary.md.j2",
        ),
        code=get_modules(
            "answer",
            "claims",
            "conditions",
            "costs",
            "explained",
            "incidents",
            "layers",
            "markdown",
            "medians",
            "notes",
            "publish",
            "remarks",
            "report",
            "terminal",
            "userland",
            "verify",
            "view",
        ),
    output:
        page=report(
            "results/{study}/report.html",
            caption="report/report.rst",
            category="Report",
            labels={"format": "HTML"},
        ),
        summary=report(
            "results/{study}/summary.md",
            caption="report/summary.rst",
            category="Report",
            labels={"format": "Markdown"},
        ),
    log:
        "results/{study}/logs/write_report.log",
    params:
        study=study.model_dump_json(),
    message:
        "Writing the report of {wildcards.study}"
    script:
        "../scripts/write_report.py"


rule verify_study:
    input:
        page="results/{study}/report.html",
        runs="results/{study}/tables/runs.parquet",
        samples="results/{study}/tables/samples.parquet",
        comparisons="results/{study}/tables/comparisons.parquet",
        code="src/tare/analysis/verify.py",
    output:
        touch("results/{study}/.verified"),
    log:
        "results/{study}/logs/verify_study.log",
    params:
        study=study.model_dump_json(),
    message:
        "Checking that the study {wildcards.study} is whole"
    script:
        "../scripts/verify_study.py"
