"""The attributes that decide in which form git stores a file."""
