"""Artifacts that are given with an order, and who may read them: memory of earlier runs, acceptance that makers never see."""
