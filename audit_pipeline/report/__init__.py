"""A page for people, made of published results: `python -m audit_pipeline report`. Reads by DuckDB, knows no Spark.

asking      what is published, by SQL                    (the only part that reads)
figures/    SQL to dataclasses: what there is to show; report.json is just these
answers/    what a reader wants first, in sentences
sections/   figures to HTML
plots/      numbers to SVG
page        the whole page, with page.css and page.js in it
"""
