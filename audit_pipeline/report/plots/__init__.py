"""Plots as inline SVG, made of numbers alone. Pure.

They are as wide as there is room for, and their letters stay as large as they are: places along the width are percent,
and only the lines are stretched.
"""
