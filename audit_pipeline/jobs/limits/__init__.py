"""Recommended limits as a step of a build: from connections by second to suggestions, and their trial on events."""
