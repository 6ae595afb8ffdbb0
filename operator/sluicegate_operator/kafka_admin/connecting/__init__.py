"""One connection to a broker: frames, requests and their answers, and the bytes of answers."""
