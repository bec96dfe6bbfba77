"""Shape operators (`reshape`, `concat`, ...), replaced by indices of their operands."""
