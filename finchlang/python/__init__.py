"""What programs in Python call: sessions, kernels, operators."""
