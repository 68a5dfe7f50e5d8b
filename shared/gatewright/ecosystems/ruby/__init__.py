"""Ruby: minitest and RSpec report each test through our module, started directly or through rake."""
