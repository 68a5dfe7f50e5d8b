"""git processes that stay, so that reading objects of a mirror does not start one each time."""
