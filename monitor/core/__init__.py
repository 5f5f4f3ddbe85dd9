"""Pure functions and frozen results on numpy arrays: no clock, no logging, no input or output."""
