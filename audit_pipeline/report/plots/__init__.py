"""Plots as inline SVG, made from numbers only. Pure.

They fill the available width, but text keeps its size: horizontal positions are percentages, and only lines are
stretched.
"""
