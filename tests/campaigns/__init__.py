"""Commands of minutes or hours, which are no part of the suite."""
