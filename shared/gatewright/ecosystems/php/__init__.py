"""PHP: PHPUnit tells each test through a log of its own, which a file of ours that PHP loads first turns into records."""
