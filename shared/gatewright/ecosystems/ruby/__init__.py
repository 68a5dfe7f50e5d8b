"""Ruby: minitest and RSpec tell each test through a module of ours that they load, started directly or through rake."""
