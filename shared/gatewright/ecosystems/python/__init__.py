"""Python: how its tests are told, planted and counted, and which folders of a candidate its modules come from."""
