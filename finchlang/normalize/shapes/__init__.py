"""Shape operators, lowered to indices of what they are of."""
