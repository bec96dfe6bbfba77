"""Normalisation: any program → Finch Normal Form (Finch'25 sections 5.1-5.5), pass by pass: PASSES
in `pass_list.py`. Each pass is a file, and so is each question that passes ask."""
