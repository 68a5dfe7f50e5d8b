"""PHP: PHPUnit reports each test in a log of its own, which our file, loaded first by PHP, converts to records."""
