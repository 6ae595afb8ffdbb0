"""Figures to HTML, one module for each section of the page. Pure. A section without data states that."""
