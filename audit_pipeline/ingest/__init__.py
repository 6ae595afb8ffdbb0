"""From spools and topics to segments."""
