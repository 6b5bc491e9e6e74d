"""Survival of the first failure and comparison of two sides: numbers in, words out. No IO, no clock."""
