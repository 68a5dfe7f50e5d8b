"""C and C++: CTest and Meson report each declared test; planted tests are declared beside the suite's own."""
