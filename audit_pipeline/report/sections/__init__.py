"""Figures to HTML, a module for each section of the page. Pure. A section without data says so."""
