"""The data to show: one module for each subject, SQL to dataclasses. Lists have a limit.

Fields `*_us` are microseconds: points in time since 1970 (UTC), or lengths.
"""
