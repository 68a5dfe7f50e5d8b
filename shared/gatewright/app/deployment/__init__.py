"""Deploys the commit that a run landed, by a command of the operator's policy, and signs what came of it."""
