"""The admission probe: what an agent, in one version, does of what agents have been seen to do. Run before it is first used."""
