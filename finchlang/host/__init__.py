"""The host language (DESIGN section 3): its terms, and the two hosts that execute or record it."""
