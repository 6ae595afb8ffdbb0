"""The console in a terminal, with Textual. No other package imports Textual."""
