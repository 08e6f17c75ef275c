"""The parts of bench/ladder."""
