"""Differential testing: cases are texts of scripts, run in several ways, compared, reduced and replayed."""
