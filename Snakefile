from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


# Says which interpreter the scripts need; never used: Tare makes its own software (rules/software.smk), because
# what a container costs is what it measures, and rules/common.smk refuses --software-deployment-method.
container: "docker://python:3.11-slim-bookworm"


# A measuring rule takes the machine whole, every other rule a share of it: nothing of the workflow runs beside
# a measured run. The limit stands here because limits in a profile or on the command line replace each other.
resource_scopes:
    machine="local",


workflow.register_resource("machine", 100)


include: "rules/common.smk"
include: "rules/software.smk"
include: "rules/data.smk"
include: "rules/measure.smk"
include: "rules/analysis.smk"
include: "rules/report.smk"


onstart:
    begin()


rule all:
    default_target: True
    input:
        f"results/{study.study}/report.html",
        f"results/{study.study}/.verified",
        # Asked for themselves: Snakemake would not make an intermediate file anew for itself alone.
        get_blocks,
        get_tables(),
        get_figures(),
    message:
        f"Everything of the study {study.study} is there"


rule images:
    input:
        expand("results/software/{stack}/image.json", stack=get_stacks()),


rule tables:
    input:
        get_tables(),


rule figures:
    input:
        get_figures(),


share_machine()
