"""What CI requires of a run: sentences, and whether what was measured meets them. Pure: no IO, no clock."""
