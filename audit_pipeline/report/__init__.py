"""The report page, made from published results: `python -m audit_pipeline report`. Reads with DuckDB, without Spark.

asking      published results in SQL                     (the only part that reads)
figures/    SQL to dataclasses: the data to show; report.json consists of these
answers/    the most important answers, in sentences
sections/   figures to HTML
plots/      numbers to SVG
page        the whole page, with page.css, and in one script page.js, usage.js and filter.js
"""
