"""Comments and attributes that silence a tool: which there are by language, and which a change adds."""
