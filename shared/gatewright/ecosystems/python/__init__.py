"""Python: reporting, planting and listing of its tests, and the folders of a candidate's modules."""
