"""C and C++: CTest and Meson tell each declared test, and tests are planted where the suite declares its own."""
