# Blocks → tables → figures. Modules of the analysis are inputs here and nowhere else: an edit reruns no measurement.


rule collect_tables:
    input:
        blocks=get_blocks,
        code=["src/tare/records.py", "src/tare/analysis/collect.py"],
    output:
        runs="results/{study}/tables/runs.parquet",
        samples="results/{study}/tables/samples.parquet",
    log:
        "results/{study}/logs/collect_tables.log",
    message:
        "Collecting the blocks of {wildcards.study} into tables"
    script:
        "../scripts/collect_tables.py"


rule compare_runtimes:
    input:
        runs="results/{study}/tables/runs.parquet",
        samples="results/{study}/tables/samples.parquet",
        code=multiext("src/tare/", "parity.py", "parity_fields.py")
        + expand(
            "src/tare/analysis/{module}.py",
            module=[
                "compare",
                "contrasts",
                "equality",
                "pairing",
                "statistics",
                "verdict",
            ],
        ),
    output:
        "results/{study}/tables/comparisons.parquet",
    log:
        "results/{study}/logs/compare_runtimes.log",
    params:
        study=study.model_dump_json(),
    message:
        "Comparing the runtimes of {wildcards.study}"
    script:
        "../scripts/compare_runtimes.py"


rule plot_overhead:
    input:
        runs="results/{study}/tables/runs.parquet",
        samples="results/{study}/tables/samples.parquet",
        comparisons="results/{study}/tables/comparisons.parquet",
        code=get_modules("figures/forest", "figures/overhead"),
    output:
        svg=report(
            "results/{study}/figures/overhead.svg",
            caption="report/overhead.rst",
            category="Figures",
            labels={
                "figure": "overhead",
                "shows": "cost of every pair with its interval, the margin and the control",
            },
        ),
        png="results/{study}/figures/overhead.png",
    log:
        "results/{study}/logs/plot_overhead.log",
    params:
        study=study.model_dump_json(),
        blocks=study.blocks,
        margin=study.margin,
    message:
        "Drawing the figure overhead of {wildcards.study}"
    script:
        "../scripts/plot_overhead.py"


rule plot_blocks:
    input:
        runs="results/{study}/tables/runs.parquet",
        samples="results/{study}/tables/samples.parquet",
        comparisons="results/{study}/tables/comparisons.parquet",
        code=get_modules("figures/blocks"),
    output:
        svg=report(
            "results/{study}/figures/blocks.svg",
            caption="report/blocks.rst",
            category="Figures",
            labels={"figure": "blocks", "shows": "ratio of every block"},
        ),
        png="results/{study}/figures/blocks.png",
    log:
        "results/{study}/logs/plot_blocks.log",
    params:
        study=study.model_dump_json(),
        blocks=study.blocks,
        margin=study.margin,
    message:
        "Drawing the figure blocks of {wildcards.study}"
    script:
        "../scripts/plot_blocks.py"


rule plot_epochs:
    input:
        runs="results/{study}/tables/runs.parquet",
        samples="results/{study}/tables/samples.parquet",
        comparisons="results/{study}/tables/comparisons.parquet",
        code=get_modules("figures/epochs"),
    output:
        svg=report(
            "results/{study}/figures/epochs.svg",
            caption="report/epochs.rst",
            category="Figures",
            labels={"figure": "epochs", "shows": "first epoch against steady epochs"},
        ),
        png="results/{study}/figures/epochs.png",
    log:
        "results/{study}/logs/plot_epochs.log",
    params:
        study=study.model_dump_json(),
        blocks=study.blocks,
        margin=study.margin,
    message:
        "Drawing the figure epochs of {wildcards.study}"
    script:
        "../scripts/plot_epochs.py"


rule plot_startup:
    input:
        runs="results/{study}/tables/runs.parquet",
        samples="results/{study}/tables/samples.parquet",
        comparisons="results/{study}/tables/comparisons.parquet",
        code=get_modules("figures/startup"),
    output:
        svg=report(
            "results/{study}/figures/startup.svg",
            caption="report/startup.rst",
            category="Figures",
            labels={
                "figure": "startup",
                "shows": "time to the first instruction and to ready",
            },
        ),
        png="results/{study}/figures/startup.png",
    log:
        "results/{study}/logs/plot_startup.log",
    params:
        study=study.model_dump_json(),
        blocks=study.blocks,
        margin=study.margin,
    message:
        "Drawing the figure startup of {wildcards.study}"
    script:
        "../scripts/plot_startup.py"


rule plot_breakdown:
    input:
        runs="results/{study}/tables/runs.parquet",
        samples="results/{study}/tables/samples.parquet",
        comparisons="results/{study}/tables/comparisons.parquet",
        code=get_modules("figures/breakdown", "figures/epochs"),
    output:
        svg=report(
            "results/{study}/figures/breakdown.svg",
            caption="report/breakdown.rst",
            category="Figures",
            labels={"figure": "breakdown", "shows": "where the time of a run goes"},
        ),
        png="results/{study}/figures/breakdown.png",
    log:
        "results/{study}/logs/plot_breakdown.log",
    params:
        study=study.model_dump_json(),
        blocks=study.blocks,
        margin=study.margin,
    message:
        "Drawing the figure breakdown of {wildcards.study}"
    script:
        "../scripts/plot_breakdown.py"


rule plot_ladder:
    input:
        runs="results/{study}/tables/runs.parquet",
        samples="results/{study}/tables/samples.parquet",
        comparisons="results/{study}/tables/comparisons.parquet",
        code=get_modules("figures/ladder", "waterfall"),
    output:
        svg=report(
            "results/{study}/figures/ladder.svg",
            caption="report/ladder.rst",
            category="Figures",
            labels={
                "figure": "ladder",
                "shows": "what each step from the host to the container costs",
            },
        ),
        png="results/{study}/figures/ladder.png",
    log:
        "results/{study}/logs/plot_ladder.log",
    params:
        study=study.model_dump_json(),
        blocks=study.blocks,
        margin=study.margin,
    message:
        "Drawing the figure ladder of {wildcards.study}"
    script:
        "../scripts/plot_ladder.py"


rule plot_options:
    input:
        runs="results/{study}/tables/runs.parquet",
        samples="results/{study}/tables/samples.parquet",
        comparisons="results/{study}/tables/comparisons.parquet",
        code=get_modules("figures/forest", "figures/options"),
    output:
        svg=report(
            "results/{study}/figures/options.svg",
            caption="report/options.rst",
            category="Figures",
            labels={
                "figure": "options",
                "shows": "what options that are no default cost",
            },
        ),
        png="results/{study}/figures/options.png",
    log:
        "results/{study}/logs/plot_options.log",
    params:
        study=study.model_dump_json(),
        blocks=study.blocks,
        margin=study.margin,
    message:
        "Drawing the figure options of {wildcards.study}"
    script:
        "../scripts/plot_options.py"
